"""Scripts that put an environment of installed programs first: `source .venv/bin/activate`, `. ~/.cargo/env`.

What they leave behind is one thing: PATH begins with a directory. Policies say which directories may.
"""

import posixpath
import re
from collections.abc import Sequence

from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, SimpleCommand

_VARIABLES = frozenset({"PATH", "PYTHONHOME", "PS1"})
"""What `activate` sets: the first gets its directory, the others are set back to what they were before."""
_USUAL = re.compile(
    r"""PATH=(?:"\$VIRTUAL_ENV/"?(?:bin|Scripts)"?:\$PATH"|"\$\{?_OLD_VIRTUAL_PATH(?::-)?\}?")|unset[ ]PYTHONHOME"""
    r"""|PYTHONHOME="\$\{?_OLD_VIRTUAL_PYTHONHOME(?::-)?\}?\"""",
    re.ASCII,
)
"""Lines in which such a script sets them, when what they get is not known (the venv module, virtualenv, uv)."""
_INSTALLED = re.compile(
    r"(/opt/(?:mini|ana)?(?:conda|forge)3?)/(?:bin/activate|etc/profile\.d/(?:conda|mamba)\.sh)"
    r"|((?:/root|/home/[^/]+|/Users/[^/]+)/(?:mini|ana)(?:conda|forge)3)/(?:bin/activate|etc/profile\.d/(?:conda|mamba)\.sh)"
    r"|((?:/root|/home/[^/]+|/Users/[^/]+)/\.(?:cargo|ghcup|deno|local))/(?:bin/)?env"
    r"|((?:/root|/home/[^/]+|/Users/[^/]+)/\.nvm)/nvm\.sh",
    re.ASCII,
)
"""Scripts of managers of toolchains, where these install them: outside of any project."""


def of_activation(path: str) -> str | None:
    """The directory of programs that the script at `path` puts first; None where it is no `bin/activate`."""
    path = plain_path(path) if path.startswith("/") else ""
    return posixpath.dirname(path) if path.endswith("/bin/activate") else None


def installed(text: str | None, state: State) -> str | None:
    """The directory of programs of the installed toolchain whose script `text` is."""
    found = _INSTALLED.fullmatch(text) if text is not None else None
    if found is None:
        return None
    home = next(group for group in found.groups() if group)
    return home + "/bin"


def activate(run: Run, ran: Sequence[SimpleCommand], place: str) -> None:
    """Say what an activation script leaves behind instead of how: `ran` are its commands, `run` is what reads it.

    Other values than the script's own directory stay what they are.
    """
    for each in ran:
        each.effects = [e for e in each.effects if not _restores(e, each.text, place)]
    span, origin = run.command.span, f"{run.command.program} operand 1"
    run.effect("environment", "assignment", "PATH", True, span, origin, value=place)


def _restores(effect: Effect, text: str, place: str) -> bool:
    if effect.kind != "environment" or effect.role != "assignment" or effect.operand not in _VARIABLES:
        return False
    return effect.operand == "PS1" or effect.value in ("", place) or (effect.value is None and _is_usual(text))


def _is_usual(text: str) -> bool:
    return _USUAL.fullmatch(text.strip()) is not None
