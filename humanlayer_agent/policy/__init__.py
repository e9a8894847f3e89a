"""Policies: rules in YAML, and the Director that applies them.

As in `shell`, the modules named here are imported when something in them is first asked for.
"""

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if not TYPE_CHECKING:
    from humanlayer_agent.light.later import Later

    _LATER = frozenset({"named", "regex", "selftest", "words"})

    def __getattr__(name: str) -> Later:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return Later(f"{__name__}.{name}")
