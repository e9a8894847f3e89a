"""The line by which an agent asks for more than the confinement of its commands gives: a comment to bash.

    # needs: network example.org:8080, write /srv/data
    make deploy

What it asks for is judged as if the command did it, and no rule allows it: a human is shown it as a part of the command
and approves it, or does not. Where nothing is confined the line says nothing.
"""

from humanlayer_agent.confine.hosts import parsed
from humanlayer_agent.shell import Effect, EffectKind, Program, SimpleCommand, absolute_path

ROLE = "needed"
"""The role of the effects that such a line stands for."""
UNCONFINED = "unconfined"
"""What it says where the command is not to be confined at all."""
HOLD = "hold"
"""What it says where a human wants to see what the command changes before that counts. An agent's own changes nothing:
a human is asked."""

_START = "# needs:"
_FORMS = f"network, network HOST:PORT, read PATH, write PATH, {UNCONFINED}"
ANY_HOST = "any host"
"""What a line asks for that asks for the network, and names no host."""
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
            asked.effects.append(Effect("network", ROLE, ANY_HOST, True, span, line))
        elif word == "network" and (found := _host(path)) is not None:
            asked.effects.append(Effect("network", ROLE, found[0], True, span, line, value=found[1]))
        elif word in _PATHS and path and not set(path) & set("*?[$`~\"'\\"):
            place = absolute_path(path, cwd)
            asked.effects.append(Effect(_PATHS[word], ROLE, place, True, span, line, recursive=True))
        elif item not in (UNCONFINED, HOLD):
            program.doubt(f"the line {_START!r} has {item!r}; it may name: {_FORMS}")
    program.commands.append(asked)


def without_confinement(text: str) -> str:
    """Return the command `text` with the line that has it run unconfined, should a human approve that.

    Example:
        >>> without_confinement("make deploy")
        '# needs: unconfined\\nmake deploy'
    """
    return f"{_START} {UNCONFINED}\n{text}"


def with_hold(text: str) -> str:
    """Return the command `text` with the line by which a human has it run held.

    Example:
        >>> with_hold("make deploy"), with_hold("# needs: write /srv/x\\nmake")
        ('# needs: hold\\nmake deploy', '# needs: write /srv/x, hold\\nmake')
    """
    line, end, rest = text.partition("\n")
    if line.startswith(_START) and end:
        return f"{line.rstrip()}, {HOLD}\n{rest}"
    return f"{_START} {HOLD}\n{text}"


def wants_hold(text: str) -> bool:
    """Tell whether the first line of a command says that it is to run held.

    Example:
        >>> wants_hold("# needs: hold\\nmake"), wants_hold("make")
        (True, False)
    """
    line = text.partition("\n")[0]
    return line.startswith(_START) and HOLD in (item.strip() for item in line.removeprefix(_START).split(","))


def is_only_unconfined(text: str) -> bool:
    """Tell whether a text is the line by which a command asks for nothing but to run unconfined.

    Example:
        >>> is_only_unconfined("# needs: unconfined"), is_only_unconfined("# needs: network")
        (True, False)
    """
    return text.startswith(_START) and text.removeprefix(_START).strip() == UNCONFINED


def _host(text: str) -> tuple[str, str | None] | None:
    """The host and the port of `HOST` or `HOST:PORT`; None where it is neither."""
    try:
        host, ports = parsed(text)
    except ValueError:
        return None
    return host, str(ports[0]) if len(ports) == 1 else None


def asked_for(command: SimpleCommand) -> list[str]:
    """Return what a command asks for that `add_needs` has added; nothing for any other."""
    return command.argv[1:] if command.program == _START and command.text.startswith(_START) else []
