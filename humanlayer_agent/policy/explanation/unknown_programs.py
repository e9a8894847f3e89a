"""Programs that no catalog describes: which they are, and where a human says what they do."""

import os
from collections.abc import Iterable

from humanlayer_agent.locations import config_path, home_folder
from humanlayer_agent.shell import Effect


def unknown_programs(effects: Iterable[Effect]) -> list[str]:
    """Return the programs among `effects` that go by a name that no catalog has, each once."""
    named = (e.operand for e in effects if e.kind == "execute" and e.role == "program" and not (e.resolved or e.unread))
    return list(dict.fromkeys(name for name in named if name and "/" not in name and name.isprintable()))


def teaching(programs: Iterable[str]) -> str:
    """Return how a human has these programs known; "" where there are none.

    Example:
        >>> teaching(["frob"]).partition(",")[0]
        'hla catalog new frob drafts what it does'
    """
    return "; ".join(f"hla catalog new {name} drafts what it does, in {own_file(name)}" for name in programs)


def own_file(program: str) -> str:
    """Return the user's own file about `program`, as people write it."""
    path, home = config_path("catalog", f"{program}.yaml"), home_folder()
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
