"""The fixtures of tests/approvals: the store is where approvals are kept."""

from tests.approvals.conftest import act, clock, decide, draft, in_child, make_gate, path, run, store

__all__ = ["act", "clock", "decide", "draft", "in_child", "make_gate", "path", "run", "store"]
