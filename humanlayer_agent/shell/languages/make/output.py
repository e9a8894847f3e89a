"""What reading a Makefile gives so far: texts for the shell, and doubts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Text
from humanlayer_agent.shell.languages.make.variables import MARKER, Environment, Texts, Variables

_RECENT = 40
"""A command is noted once among so many."""
_QUOTES = re.compile(r"['\\#]|<<")
"""Where the shell would not expand a variable that stands for what make would have put there."""


@dataclass(slots=True)
class Output:
    """Collects what the lines and recipes of one reading do. `line` is the one that is being read (0: none)."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    line: int = 0
    reasons: list[str] = field(default_factory=list)

    def doubt(self, reason: str) -> None:
        """Something can't be told."""
        self.behaviour.doubt(f"line {self.line}: {reason}" if self.line else reason)

    def variables(self, environment: Environment, given: Mapping[str, str], directory: str | None) -> Variables:
        """The variables of the reading: their functions may do more than give a text."""
        return Variables(environment, self._ran, given, reasons=self.reasons, cwd=directory)

    def run(self, command: str, origin: str, *, bash: bool = False) -> None:
        """A shell runs `command`."""
        command = self.filled(command)
        if not command.strip():
            return
        if bash:
            act = Act("program", (Text.of("bash"), Text.of("-c"), Text.of(command)), origin=origin, line=self.line)
        else:
            act = Act("shell", (Text.of(command),), origin=origin, line=self.line)
        acts = self.behaviour.acts
        if not any(a.kind == act.kind and a.operands == act.operands for a in acts[-_RECENT:]):
            acts.append(act)

    def filled(self, text: str) -> str:
        """`text` for the shell: what only the environment knows is looked up there, what is unknown is a doubt."""
        sure = _QUOTES.search(text) is None

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("?"):
                self.doubt(self.reasons[int(name[1:])] if name[1:] else "a target without a name")
                return "${_}"
            if not sure:
                self.doubt(f"{name} of the environment, in quotes")
            return "${" + name + "}"

        return MARKER.sub(fill, text)

    def used(self, texts: Texts) -> Texts:
        """`texts` that a line of make's own consists of: an unknown part is a doubt there, whatever it is."""
        for text in texts:
            self.filled(text)
            if any(not match[1].startswith("?") for match in MARKER.finditer(text)):
                self.doubt("a variable of the environment in a line of make's")
        return texts

    def _ran(self, function: str, texts: Texts) -> None:
        if function != "shell":
            self.doubt(f"$({function} ...)")
            return
        for text in texts:
            self.run(text, "$(shell ...)")
