"""The Director: judges an action by the rules in force.

The semantics (each has a test): three values, strictest wins, an allow must be proven and covers only what it names,
deny rules also run over what could be seen of a command that can't be parsed, and nothing that goes wrong here ends in
an allow.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from humanlayer_agent.action import BASH, FUNCTION, INERT, PLAN, Action
from humanlayer_agent.confine.confinement import Confinement
from humanlayer_agent.errors import PolicyError, StoreError
from humanlayer_agent.locations import home_folder, own_places, temporary_folder
from humanlayer_agent.policy import verdict
from humanlayer_agent.policy.conditions.circumstances import Circumstances, moment
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import VERDICTS, Judged
from humanlayer_agent.policy.conditions.link_targets import Links
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.language import loader as loading
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.policy.layers.catalog_files import SHIPPED, Catalogs
from humanlayer_agent.policy.layers.current_rules import InForce
from humanlayer_agent.policy.needs_line import add_needs
from humanlayer_agent.policy.run_record import RunRecord
from humanlayer_agent.shell import (
    HOST,
    Baseline,
    Beginning,
    DiskReader,
    Effect,
    Program,
    Reader,
    Remembered,
    SimpleCommand,
    View,
    analyse,
    blast_radius,
    checkout_in,
    folds_case,
    is_moved_by,
    note_losses,
    note_versions,
)
from humanlayer_agent.tools.calls import known_effects

_PLAIN_BASH_OPTIONS = frozenset({"-l", "-c", "-lc", "--norc", "--noprofile"})


class Director:
    """Judges actions. Thread-safe; runs nothing, and reads nothing but where symbolic links lead.

    Args:
        policy: one policy by itself, or layers, the highest first (see `layers.find_layers`).
        project: the directory the agent works for.
        environ: our environment: HOME and TMPDIR are taken from it.
        variables: further variables of path patterns.
        observe: decisions say that they are not enforced.
        reader: gives the files that actions run; without one they are code that nobody has read.
        today: gives the day, or the moment (UTC, ISO 8601), where it is not that of the clock; overrides and exceptions
            expire by it.
        confined: whoever runs what is allowed holds it to the confinement of the decision (`PolicyDecision`). A view
            says which folder it then sees as /tmp; True, that it is a new one.
        reduced: whoever runs what is allowed holds it to what of that Landlock can; nothing is judged otherwise by it.
        reads: path sets that confined commands can read, besides those of the policies.
        container: everything runs in a container, which lets it reach this and nothing else; its files are not those of
            this machine. Not together with `confined` or `reduced`.
        folds: `.ENV` is the file `.env`, as on most volumes of macOS; None: it is looked up where the project is.
        record: what is kept of the run that the actions belong to; None: they belong to none.
        catalogs: what is known of programs (see `layers.catalog_files`); the shipped catalog alone where nothing is
            given.
        around: what surrounds every action, where it is not what is so at this moment: that of examples.

    Raises:
        PolicyError: a variable can't be used, or a path pattern is none.

    Example:
        >>> from humanlayer_agent import Action
        >>> director = Director.load("default", project="/srv/app")
        >>> director.should_allow(Action("ls -la", cwd="/srv/app"))[0]
        True
    """

    def __init__(
        self,
        policy: Policy | Sequence[Layer],
        *,
        project: Path | str,
        environ: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        observe: bool = False,
        reader: Reader | None = None,
        today: Callable[[], str] | None = None,
        confined: View | bool = False,
        reduced: bool = False,
        reads: Sequence[str] = (),
        container: Confinement | None = None,
        folds: bool | None = None,
        record: RunRecord | None = None,
        catalogs: Catalogs = SHIPPED,
        around: Circumstances | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.layers = [Layer(policy, "given")] if isinstance(policy, Policy) else list(policy)
        self.project = str(project)
        self.variables = _variables(self.project, environ, self.layers, variables or {})
        self.environ = {name: self.variables[name] for name in ("HOME", "TMPDIR") if name == "HOME" or name in environ}
        self.name = " + ".join(layer.policy.name for layer in self.layers)
        self.observe = observe
        self.reader = reader
        self.confined = confined is not False
        self._tmp = View("") if confined is True else confined or None
        self.reduced = reduced
        self.container = container
        self.folds = folds_case(os.path.abspath(self.project)) if folds is None else folds
        self.record = record
        self.catalogs = catalogs
        self.around = around
        self._reads = tuple(reads)
        self._now = today or _moment
        self._read = Remembered()
        self._judged_one = False
        self._beginning: Beginning | None = None
        self._unparsed = max(VERDICTS[layer.policy.defaults.unparsed] for layer in self.layers)
        self._search_path = environ.get("PATH", "")
        self._variables = frozenset(environ)
        self._used: Callable[[str, str, str], int] | None = None
        self._in_force = self._on(self._now())

    @classmethod
    def load(
        cls,
        policy: str | Path = "default",
        *,
        project: Path | str,
        environ: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        observe: bool = False,
        reader: Reader | None = None,
        tested: bool = True,
        confined: View | bool = False,
        reduced: bool = False,
        reads: Sequence[str] = (),
        container: Confinement | None = None,
        folds: bool | None = None,
        record: RunRecord | None = None,
        catalogs: Catalogs = SHIPPED,
    ) -> "Director":
        """Read one policy: it is the whole, and no layer is read.

        Args:
            policy: a file, or the name of a shipped policy.
            project, environ, variables, observe, reader, confined, reduced, reads, container, folds, record, catalogs:
                as for `Director`.
            tested: a policy that fails the tests in its own rules is an error (see `policy.language.loader.load`).

        Raises:
            PolicyError: with file:line:column.

        Example:
            >>> Director.load("strict", project="/srv/app").name
            'strict'
        """
        found = loading.load(loading.named(policy), tested=tested, variables=tuple(variables or ()))
        observe = observe or found.observe
        return cls(
            found, project=project, environ=environ, variables=variables, observe=observe, reader=reader,
            confined=confined, reduced=reduced, reads=reads, container=container, folds=folds,
            record=record, catalogs=catalogs,
        )  # fmt: skip

    @property
    def digest(self) -> str:
        """The digest of everything that decides: the rules that hold now, and the values of their variables."""
        return self.in_force().digest

    def should_allow(self, action: Action) -> tuple[bool, str]:
        """Return (allowed, reason): the simplest form of `evaluate`."""
        decision = self.evaluate(action)
        return decision.verdict is Verdict.ALLOW, decision.reason

    def evaluate(self, action: Action, reader: Reader | None = None, *, held: bool = True) -> PolicyDecision:
        """Judge `action`.

        No decision is remembered: the same action is judged anew each time, by the files that are there now and by
        where symbolic links lead now: as the command will see them, in the /tmp of its run where it runs confined. What
        is neither allowed nor approved so is judged by those of the machine, and both must allow it.

        Args:
            action: what the agent wants to do. It starts in its `cwd`, or in the project where that is "".
            reader: stands in for the Director's own.
            held: whoever runs this action does what was said by `confined` or `reduced`. Nobody does of a function's
                call.

        Example:
            >>> director = Director.load("default", project="/srv/app")
            >>> director.evaluate(Action("cat .env", cwd="/srv/app")).rule
            'secrets'
        """
        begin, in_force = time.perf_counter_ns(), self.in_force()
        if action.type == PLAN:
            return self._planned(in_force, action)
        self._note_beginning(in_force)
        if not held or action.type == FUNCTION:
            return replace(self._judged(in_force, action, reader, HOST, begin), reduced=None)
        decision = self._judged(in_force, action, reader, in_force.view, begin)
        if decision.confinement is not None or decision.verdict is Verdict.DENY or in_force.view == HOST:
            return decision
        # It runs unconfined, should a human approve it: by that it is judged, and shown.
        return verdict.unconfined(self._judged(in_force, action, reader, HOST, begin), decision)

    def _planned(self, in_force: InForce, action: Action) -> PolicyDecision:
        """Judge what a task will need, as nothing would hold it. It is never allowed: by it nothing runs."""
        from humanlayer_agent.policy import plan

        situation = replace(self.situation(action), confinable=False, container=None)
        asked = plan.read_plan(action.content, action.cwd or self.project)
        return plan.judged(
            asked, in_force.rules, situation, project=self.project, policy=self.name, digest=in_force.digest
        )

    def evaluate_approved(self, action: Action, view: View) -> PolicyDecision:
        """Judge an action once more that a human has approved, in the view in which it was judged and will run.

        It costs nothing and asks nobody, so it is done right before the action runs.
        """
        return self._judged(self.in_force(), action, None, view, time.perf_counter_ns(), approved=True)

    def blast_radius(self, action: Action, view: View) -> tuple[str, ...]:
        """Return what an action would do to what is on the disk, in sentences for the human who is asked; nothing is
        run. Of files that are not this machine's nothing is said.

        Args:
            action: what the agent wants to do.
            view: what of the disk it was judged in.

        Example:
            >>> director = Director.load("default", project="/srv/app", reader=DiskReader("/srv/app"))
            >>> director.blast_radius(Action("rm /no/such/file", cwd="/srv/app"), HOST)
            ('Deletes /no/such/file: there is no such file now.',)
        """
        if action.type in INERT or self.container is not None or not isinstance(self.reader, DiskReader):
            return ()
        environ = dict(action.env) if action.env else self.environ
        program = self.program(action, view=view)
        return blast_radius(program, project=action.cwd or self.project, view=view, environ=environ)

    def _note_beginning(self, in_force: InForce) -> None:
        """Note what is uncommitted before a run's first action has ended, or right after; whoever judges one action
        only has no use for it.
        """
        if self._judged_one and self._beginning is None and isinstance(self.reader, DiskReader):
            self._beginning = Beginning(self.project, in_force.view)
        self._judged_one = True

    def _judged(
        self, in_force: InForce, action: Action, reader: Reader | None, view: View, begin: int, approved: bool = False
    ) -> PolicyDecision:
        record = self.record if reader is None else None
        if record is not None and not record.look():
            reader = DiskReader(self.project, view, Baseline(self.project))
        program, situation = self.program(action, reader, view), self.situation(action, view)
        decision, _ = self._judge(in_force, program, situation, action.content, begin)
        if record is not None:
            free = (approved or decision.verdict is Verdict.ALLOW) and decision.confinement is None and view == HOST
            record.note(program, judged=free)
        return decision

    def situation(self, action: Action, view: View | None = None) -> Situation:
        """Return the circumstances in which an action is judged, in this view: that of what is allowed, where it is
        None.
        """
        links = Links(self.in_force().view if view is None else view, folds=self.folds)
        confinable = self.container is not None or (self.confined and links.view != HOST)
        situation = Situation.of(
            action, project=self.project, confinable=confinable, around=self.around or self._around(action)
        )
        situation.links = links
        situation.container = self.container
        situation.catalog = self.catalogs.catalog
        situation.search_path = dict(action.env).get("PATH", "") if action.env else self._search_path
        return situation

    def count_by(self, used: Callable[[str, str, str], int] | None) -> None:
        """Have limits judged by what was used before, as a store says it (`Store.used`)."""
        self._used = used

    def _used_before(self, run: str, counter: str, per: str) -> int | None:
        """Return how much of a counter was used before; None where nobody can tell."""
        try:
            return None if self._used is None else self._used(counter, per, run)
        except StoreError:
            return None

    def _around(self, action: Action) -> Circumstances:
        """Return what surrounds an action at this moment."""
        moved = is_moved_by((), action.env or self._variables)
        return Circumstances(
            moment(self._now()),
            action.requester or None,
            None if moved else checkout_in,
            DiskReader.digest if isinstance(self.reader, DiskReader) else None,
            partial(self._used_before, action.run_id),
            action.cost,
        )

    def program(self, action: Action, reader: Reader | None = None, view: View | None = None) -> Program:
        """Return what `action` would run, as far as it can be seen.

        Args:
            reader: stands in for the Director's own.
            view: what it would see of the disk; None: what is seen by what is allowed.
        """
        if action.type == FUNCTION:
            return self._called(action, reader, view)
        environ = dict(action.env) if action.env else self.environ
        program = analyse(
            action.content,
            cwd=action.cwd or self.project,
            environ=environ,
            closed=bool(action.env),
            reader=reader or self._reader(view),
            memory=self._read,
            catalog=self.catalogs.catalog,
        )
        if action.type == "bash" and action.interpreter == BASH:
            seen = self.in_force().view if view is None else view
            on_disk = isinstance(reader or self.reader, DiskReader) and self.container is None
            if on_disk:
                note_losses(program, action.cwd or self.project, seen, self._beginning, environ)
            if self.confined:
                add_needs(program, action.content, action.cwd or self.project)
                if on_disk and (protection := self.in_force().rules.protection):
                    note_versions(program, action.cwd or self.project, seen, protection.has, environ)
            return program
        if action.type != "bash":
            program.doubt(f"actions of type {action.type!r} are not understood")
        if action.interpreter[:1] not in (("bash",), ("/bin/bash",), ("/usr/bin/bash",)):
            program.doubt(f"run by {' '.join(action.interpreter) or 'an unknown shell'}, not by bash")
        elif action.interpreter != BASH and not set(action.interpreter[1:]) <= _PLAIN_BASH_OPTIONS:
            program.doubt(f"run by {' '.join(action.interpreter)}")
        return program

    def _called(self, action: Action, reader: Reader | None, view: View | None) -> Program:
        """Return a call as a program: the call itself, of which the name is all that is known, so that rules allow or
        deny it by that, and beside it what is known to be done by it, from wherever its tool may work.
        """
        call, span = action.content, (0, len(action.content))
        name = call.partition("(")[0]
        command = SimpleCommand(f"{name}()", [call], span, call, known=False)  # it is no program of that name
        command.effects.append(Effect("execute", FUNCTION, name, True, span, "call"))
        program = Program([command])
        text, doubts = known_effects(action.agent, action.tool, action.arguments) if action.tool else ("", ())
        for reason in doubts:
            program.doubt(reason)
        places = dict.fromkeys((action.cwd or self.project, action.project or self.project))
        for place in places if text else ():
            done = analyse(
                text,
                cwd=place,
                environ=self.environ,
                reader=reader or self._reader(view),
                memory=self._read,
                catalog=self.catalogs.catalog,
            )
            for each in done.commands:
                each.span = span
                each.effects[:] = [replace(effect, span=span) for effect in each.effects]
            program.commands += done.commands
            for reason in done.reasons if done.status != "ok" else ():
                program.doubt(reason)
        return program

    def _reader(self, view: View | None) -> Reader | None:
        if isinstance(self.reader, DiskReader):
            return self.reader.seen_in(self.in_force().view if view is None else view)
        return self.reader

    def judge(self, program: Program, situation: Situation, text: str = "") -> PolicyDecision:
        """Judge a program that was already read (its text is `text`)."""
        return self.judge_with_hits(program, situation, text)[0]

    def judge_with_hits(
        self, program: Program, situation: Situation, text: str = ""
    ) -> tuple[PolicyDecision, list[Judged]]:
        """Judge a program that was already read, and return the hits on each of its commands as well."""
        return self._judge(self.in_force(), program, situation, text, None)

    def _judge(
        self, in_force: InForce, program: Program, situation: Situation, text: str, begin: int | None
    ) -> tuple[PolicyDecision, list[Judged]]:
        situation.parse = program.status
        rules = in_force.rules
        judged = rules.judge(program, situation)
        more = [] if judged or program.status == "ok" else rules.unseen(text, situation)
        decision = verdict.decided(
            program,
            judged,
            more,
            unparsed=self._unparsed,
            policy=self.name,
            digest=in_force.digest,
            enforced=not self.observe,
            begin=begin,
            situation=situation,
            reduced=rules.confine if self.reduced else None,
            keep=rules.keep,
            undo=rules.undo,
            counts=rules.counts(situation) if rules.counters else (),
        )
        return decision, judged

    def in_force(self) -> InForce:
        """Return the rules that hold now. An override, or an exception, ends in a running process too."""
        now = self._now()
        if not self._in_force.holds(now):
            self._in_force = self._on(now)
        return self._in_force

    def _on(self, now: str) -> InForce:
        return InForce(self.layers, self.variables, now, self._reads, self._tmp, self.catalogs)


def _moment() -> str:
    """Return the moment (UTC), in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _variables(
    project: str, environ: Mapping[str, str], layers: Sequence[Layer], more: Mapping[str, str]
) -> dict[str, str]:
    home = environ.get("HOME") or home_folder()
    files = dict.fromkeys(path for layer in layers for path in layer.files)
    found = {
        "PROJECT": project,
        "REPOSITORY": project,
        "HOME": home,
        "TMPDIR": _temporary(environ, home, project),
        **own_places(),
        **{f"POLICY_FILE_{n}": os.path.abspath(path) for n, path in enumerate(files)},
        **more,
    }
    for name, value in found.items():
        if "*" in value or "?" in value:
            raise PolicyError(f"{name} is {value}: a path with * or ? can't be used, it would stand for others too")
    return found


def _temporary(environ: Mapping[str, str], home: str, project: str) -> str:
    """Return the folder for temporary files; /tmp where the setting is one that everything lies below."""
    folder = environ.get("TMPDIR") or temporary_folder()
    plain = os.path.normpath(folder)
    wide = any(p == plain or p.startswith(plain.rstrip("/") + "/") for p in (home, project))
    return "/tmp" if wide or not plain.startswith("/") else folder
