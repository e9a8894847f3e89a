"""What the text of a command would run, and what each of its commands does.

The modules named here are imported when something in them is first asked for: `from humanlayer_agent.shell import
loops` is enough to say so.
"""

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if not TYPE_CHECKING:
    from humanlayer_agent.light.later import Later

    _LATER = frozenset(
        str.split("""arithmetic builtins code dialect environment environments flow full grammars inherited lines loops
        nested output redirects scripts setters settings variables words written""")
    )

    def __getattr__(name: str) -> Later:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return Later(f"{__name__}.{name}")
