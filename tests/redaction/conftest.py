"""The fixtures of tests/audit: what is redacted goes into the log."""

from tests.audit.conftest import export, path, store

__all__ = ["export", "path", "store"]
