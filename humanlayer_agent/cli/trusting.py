"""`hla policy trust`: a human reads a project's policy at the terminal, and trusts exactly that text."""

import hashlib
import os
import sys
from pathlib import Path

from humanlayer_agent.agents.process import SUPERVISED
from humanlayer_agent.channels.text import visible, warnings
from humanlayer_agent.channels.tty import controlling_terminal, discard_input, write
from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.places import PROJECT_FOLDER
from humanlayer_agent.policy import examples, sources, trust
from humanlayer_agent.policy.layers import FILE
from humanlayer_agent.policy.load import load
from humanlayer_agent.policy.model import Policy

NO_HUMAN = 3
_WORD = "trust"


def trust_project(project: Path, *, withdraw: bool = False) -> int:
    """Show the project's policy, ask, and remember the answer. Returns the exit code: 0 trusted, 1 not, 3 no terminal.

    Raises:
        ConfigError: we run below a supervisor; there is no policy; it has a mistake; the answer can't be kept.
    """
    if os.environ.get(SUPERVISED):
        raise ConfigError("this is a supervised command: only a human at a terminal of their own trusts a policy")
    if withdraw:
        print("trusted no longer" if trust.withdraw(project) else "it was not trusted")
        return 0
    path = project / PROJECT_FOLDER / FILE
    policy = load(path, within=project)
    shown = _shown(policy)
    if trust.is_trusted(project, policy):
        print(f"{path} is trusted already, as it stands")
        return 0
    try:
        with controlling_terminal() as fd:
            write(fd, shown + _summary(policy) + f"\nType {_word()} to trust exactly this text, anything else not to: ")
            discard_input(fd)
            answer = _line(fd)
    except NoTerminal as error:
        print(f"humanlayer-agent: not trusted: {error}", file=sys.stderr)
        return NO_HUMAN
    if answer.strip() != _WORD:
        print("not trusted")
        return 1
    try:
        place = trust.record(project, policy)
    except OSError as error:
        raise ConfigError(f"the answer can't be kept: {error}") from error
    print(f"trusted: {path} may now also allow what nothing else decides ({place})")
    return 0


def _word() -> str:
    return f'"{_WORD}"'


def _shown(policy: Policy) -> str:
    """Every file of the policy that is not ours, in full, as text that can't act on the terminal."""
    by_path = {source.path: source.sha256 for source in policy.sources}
    parts = []
    for path in trust.own_files(policy):
        raw = sources.read(Path(path))
        if hashlib.sha256(raw).hexdigest() != by_path[path]:
            raise ConfigError(f"{path} has changed while it was read: try again")
        text = raw.decode("utf-8")
        lines = [f"{n:4}  {visible(line, keep='')}" for n, line in enumerate(text.split("\n"), 1)]
        odd = "".join(f"  ! {visible(warning, keep='')}\n" for warning in warnings(text))
        parts.append(f"== {visible(path, keep='')}\n" + "\n".join(lines) + "\n" + odd)
    return "\n".join(parts)


def _summary(policy: Policy) -> str:
    allows = [rule.id for rule in policy.rules if rule.decision == "allow" and not rule.inherited]
    failed = [result for result in examples.run(policy) if not result.passed]
    lines = [f"\nIt allows: {', '.join(allows) or 'nothing of its own'}."]
    if failed:
        lines.append(f"{len(failed)} of its own tests fail (hla policy test).")
    return "\n".join(lines)


def _line(fd: int) -> str:
    """One line as the terminal gives it; "" at its end."""
    data = b""
    while not data.endswith(b"\n") and len(data) < 4096:
        more = os.read(fd, 1024)
        if not more:
            return ""
        data += more
    return data.decode("utf-8", "replace")
