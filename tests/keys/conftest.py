"""The fixtures of tests/approvals: keys sign votes."""

from tests.approvals.conftest import act, backend, clock, decide, draft, in_child, make_gate, path, run, store

__all__ = ["act", "backend", "clock", "decide", "draft", "in_child", "make_gate", "path", "run", "store"]
