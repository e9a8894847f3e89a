"""`hla policy allow`: a human has a command be allowed from now on, by the narrowest exception that can be said."""

import difflib
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from humanlayer_agent.action import Action
from humanlayer_agent.cli.policy.diff import print_diff
from humanlayer_agent.cli.policy.replay import log_items
from humanlayer_agent.cli.shared.file_replacement import replace_file, write_new
from humanlayer_agent.cli.shared.human_signature import typed_word
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import explain
from humanlayer_agent.policy.language import loader
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.language.sources import BUILTIN
from humanlayer_agent.policy.layers import Authority, Layer, excuses, find_layers, places, trust
from humanlayer_agent.policy.layers.catalog_files import find_catalogs
from humanlayer_agent.policy_tools.diff import Diff, over_tests
from humanlayer_agent.policy_tools.diff.acceptance import Accepted
from humanlayer_agent.policy_tools.exception_drafts import Draft, add_tests, draft
from humanlayer_agent.policy_tools.replay import Engine
from humanlayer_agent.policy_tools.yaml_additions import added
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.processes.tty import controlling_terminal
from humanlayer_agent.safe_text import one_line, visible

NO_HUMAN = 3
DAYS = 90
"""So long an exception holds where nobody says until when."""
_NEW = "version: 1\npolicy: mine\nextends: [builtin:default]\n"
_EXAMPLES = 5
_LONGEST = 390
"""Characters of a reason."""
Place = Literal["user", "project"]


def run_allow(
    command: str,
    project: Path,
    *,
    cwd: str,
    place: Place,
    until: str | None,
    reason: str | None,
    file: Path | None,
    yes: bool,
) -> int:
    """Draft what has `command` be allowed, show what it would change, and write it once a human has said yes.

    Args:
        command: the command line.
        project: the directory the agent works for.
        cwd: the directory that it starts in; "": the project.
        place: whose policy it is written to.
        until: the last day (or the end) of the exceptions; None: in 90 days.
        reason: theirs; None: who allowed what, and when.
        file: a policy file that is written to instead; it is no policy in force.
        yes: don't ask; only with `file`.

    Returns:
        The exit code: 0 written, 1 not, 3 no terminal.

    Raises:
        ConfigError: we run below a supervisor; it can't be drafted; the file can't be written.
    """
    human_only("policy allow", "changes a policy")
    if yes and file is None:
        raise ConfigError("--yes: a human who has read it changes a policy in force: --yes goes with --file only")
    target = target_of(project, place, file)
    said = reason or f"{os_user().rpartition(':')[2]} allowed `{one_line(command)}` on {day(0)}"
    action = Action(command, cwd=cwd or str(project), project=str(project))
    director = target.director(project)
    explanation = explain(director, action)
    if explanation.decision.verdict is Verdict.ALLOW:
        print("it is allowed already: hla policy explain says by what")
        return 0
    made = draft(explanation, command, director.variables, target.out_of_reach)
    if made.problems:
        listed = "\n".join(f"  {each}" for each in made.problems)
        raise ConfigError(f"no draft can have this be allowed:\n{listed}\nhla policy explain says more")
    text, policy = target.drafted(made, said[:_LONGEST], until or day(DAYS))
    decision = target.director(project, policy).evaluate(action)
    if decision.verdict is not Verdict.ALLOW:
        raise ConfigError(f"it would be asked about all the same: {decision.reason} hla policy explain says more")
    _show(target, text, project, policy)
    if not yes:
        try:
            with controlling_terminal() as fd:
                if not typed_word(fd, "", "allow", f"add this to {one_line(str(target.path))}"):
                    print("nothing was written")
                    return 1
        except NoTerminal as error:
            print(f"humanlayer-agent: nothing was written: {error}", file=sys.stderr)
            return NO_HUMAN
    target.write(text, project)
    print(f"added to {one_line(str(target.path))}")
    return 0


@dataclass(frozen=True, slots=True)
class Target:
    """The policy file that is written to: whose it is ("given": it is not in force), and what stands there."""

    path: Path
    authority: Authority
    text: str
    policy: Policy | None

    def layers(self, project: Path, policy: Policy | None = None) -> list[Layer]:
        """The layers in force for a project, with `policy` in the place of this one."""
        own = policy or self.policy
        if self.authority == "given":
            return [Layer(own, "given")] if own is not None else []
        found = {layer.authority: layer for layer in find_layers(project, tested=False)}
        if own is not None:
            found[self.authority] = Layer(own, self.authority)
        if "user" in found:
            found.pop("builtin", None)
        return [found[each] for each in ("machine", "user", "builtin", "project") if each in found]

    def director(self, project: Path, policy: Policy | None = None) -> Director:
        """A Director by these layers."""
        from humanlayer_agent.configuration import readable

        layers = self.layers(project, policy)
        reader, _ = readable(str(project), confined=False)
        return Director(layers, project=project, reader=reader, catalogs=find_catalogs(project, layers))

    def out_of_reach(self, rule: CompiledRule) -> str:
        """Why this file can't excuse from a rule; "" where it can."""
        if rule.layer == self.authority or (self.authority, rule.layer) == ("user", "builtin"):
            return ""
        if rule.layer == "machine":
            return "it is the machine's"
        if self.authority == "project" and rule.rule.origin.startswith(BUILTIN) and excuses.is_light(rule.rule):
            return ""
        return f"it is the {rule.layer}'s: --in {'project' if rule.layer == 'project' else 'user'}"

    def drafted(self, made: Draft, reason: str, expires: str) -> tuple[str, Policy]:
        """The text of the file with a draft, and the policy that it is. Its examples hold."""
        exceptions = made.exceptions(reason, expires)
        rules = made.rules(reason, [rule.id for rule in self.policy.rules] if self.policy is not None else [])
        numbered = [{**each, "reason": f"{reason} {n}"} for n, each in enumerate(exceptions)]
        policy = self._loaded(added(self.text, str(self.path), {"rules": rules, "exceptions": numbered}), tested=False)
        add_tests(policy, made, numbered, rules)
        exceptions = [{**each, "reason": reason} for each in numbered]
        text = added(self.text, str(self.path), {"rules": rules, "exceptions": exceptions})
        return text, self._loaded(text, tested=True)

    def _loaded(self, text: str, *, tested: bool) -> Policy:
        """The policy that a text is in the place of this file."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.yaml")
        try:
            write_new(beside, text.encode(), 0o600)
            return loader.load(beside, tested=tested)
        finally:
            with suppress(OSError):
                beside.unlink()

    def write(self, text: str, project: Path) -> None:
        """Put a text in the place of the file, where that is still what was read.

        Raises:
            ConfigError: it has changed, or can't be written.
        """
        replace_file(self.path, None if self.policy is None else self.text.encode(), text.encode())
        if self.authority == "project":  # it was trusted, and so is what a human has added
            trust.record(project, trust.policy_files(loader.load(self.path, within=project)))


def target_of(project: Path, place: Place, file: Path | None) -> Target:
    """Return the file that is written to.

    Raises:
        ConfigError: a `file` that is in force; a project's policy that is not there, or not trusted; one that can't be
            used.
    """
    in_force = {os.path.realpath(path) for _, path in places(project)}
    if file is not None:
        layers = find_layers(project, tested=False)
        in_force |= {os.path.realpath(own) for layer in layers for own in trust.own_files(layer.policy)}
        if os.path.realpath(file) in in_force:
            raise ConfigError(f"{file} is in force: leave out --file, and read at a terminal what would be added")
        return Target(file, "given", _text(file), loader.load(file, tested=False))
    path = next(Path(each) for authority, each in places(project) if authority == place)
    if path.is_symlink():
        raise ConfigError(f"{path} is a link: add to the file that it leads to, by --file")
    if place == "user":
        if not path.exists():
            return Target(path, "user", _NEW, None)
        trust.check_owner(path, machine=False)
        return Target(path, "user", _text(path), loader.load(path, tested=False))
    if not path.exists():
        raise ConfigError(f"{path} is not there: hla init --project {project} writes it")
    policy = loader.load(path, within=project, tested=False)
    if not trust.is_trusted(project, trust.policy_files(policy)):
        raise ConfigError(f"{path} is not trusted, so that it can't allow anything: hla policy trust shows it first")
    return Target(path, "project", _text(path), policy)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: can't be read: {error}") from error


def day(after: int) -> str:
    """The day (UTC, ISO 8601) so many days from now."""
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() + after * 86_400))


# ---- what it would change -----------------------------------------------------------------------------------


def _show(target: Target, text: str, project: Path, policy: Policy) -> None:
    """Print what would be added, and what it would change: over the tests of the rules, and over the log."""
    print(f"to be added to {one_line(str(target.path))}:\n")
    before = target.text.splitlines()
    for line in difflib.ndiff(before, text.splitlines()):
        if line.startswith("+ "):
            print(visible(line[2:], keep=""))
    print()
    old = target.policy or loader.load(loader.named("default"))
    print_diff(over_tests(old, policy, Accepted()), "now", "then", over_tests=True, top=_EXAMPLES, hint=False)
    items = log_items()
    if items:
        diff = Diff()
        diff.count(engine_of(lambda at: [target.director(at), target.director(at, policy)]).replay(items))
        print_diff(diff, "now", "then, over the log", over_tests=False, top=_EXAMPLES, hint=False)
    print()


def engine_of(directors: Callable[[Path], Sequence[Director]]) -> Engine:
    """Judges recorded commands by what `directors` gives for a project."""
    from humanlayer_agent.configuration import checked_project, find_project

    return Engine(lambda at, confined: directors(Path(at)), default=find_project, check=checked_project)
