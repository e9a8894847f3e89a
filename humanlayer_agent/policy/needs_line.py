"""The line by which an agent asks for more than the confinement of its commands gives: a comment to bash.

    # needs: network, write /srv/data
    make deploy

What it asks for is judged as if the command did it, and no rule allows it: a human is shown it as a part of the command
and approves it, or does not. Where nothing is confined the line says nothing.
"""

from humanlayer_agent.shell import Effect, EffectKind, Program, SimpleCommand, absolute_path

ROLE = "needed"
"""The role of the effects that such a line stands for."""
UNCONFINED = "unconfined"
"""What it says where the command is not to be confined at all."""

_START = "# needs:"
_FORMS = f"network, read PATH, write PATH, {UNCONFINED}"
_PATHS: dict[str, EffectKind] = {"read": "read", "write": "write"}


def add_needs(program: Program, text: str, cwd: str) -> None:
    """Add what the first line of a command asks for to what it does.

    Args:
        program: what the command does otherwise.
        text: the command.
        cwd: where it starts: paths are relative to it.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> text = "# needs: network\\nmake"
        >>> add_needs(program := analyse(text, cwd="/srv/app"), text, "/srv/app")
        >>> [(effect.kind, effect.operand) for effect in program.commands[-1].effects]
        [('network', 'any host')]
    """
    line = text.partition("\n")[0]
    if not line.startswith(_START):
        return
    items = [" ".join(item.split()) for item in line.removeprefix(_START).split(",")]
    span = (0, len(line))
    asked = SimpleCommand(_START, [_START, *items], span, line)
    for item in items:
        word, _, path = item.partition(" ")
        if item == "network":
            asked.effects.append(Effect("network", ROLE, "any host", True, span, line))
        elif word in _PATHS and path and not set(path) & set("*?[$`~\"'\\"):
            place = absolute_path(path, cwd)
            asked.effects.append(Effect(_PATHS[word], ROLE, place, True, span, line, recursive=True))
        elif item != UNCONFINED:
            program.doubt(f"the line {_START!r} has {item!r}; it may name: {_FORMS}")
    program.commands.append(asked)


def asked_for(command: SimpleCommand) -> list[str]:
    """Return what a command asks for that `add_needs` has added; nothing for any other."""
    return command.argv[1:] if command.program == _START and command.text.startswith(_START) else []
