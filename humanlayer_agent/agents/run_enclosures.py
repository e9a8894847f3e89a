"""Run commands confined that were allowed because they would be: the backend, and the folders of one run."""

import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from humanlayer_agent.agents.containers import confinement_of
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.confine import landlock
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure, find
from humanlayer_agent.confine.certificates import is_public
from humanlayer_agent.confine.confinement import TREE, Bounds, Confinement, Profile, Unenforceable, is_below
from humanlayer_agent.confine.environment import cache_variables, confined_environment, settings_files, shared_caches
from humanlayer_agent.confine.held_run.application import NotApplied
from humanlayer_agent.confine.held_run.overlay import LayeredEnclosure, Over
from humanlayer_agent.confine.journal import MovedAside
from humanlayer_agent.confine.project_files import Asked, ProjectFiles, project_files
from humanlayer_agent.confine.proof import proven
from humanlayer_agent.confine.repository import kept_contents, repository_folder, sources
from humanlayer_agent.confine.survey import is_writable, survey
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import home_folder, kept_folder, state_path
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.processes.execution import Caller, CommandResult, command_environment, find_program, run_command
from humanlayer_agent.processes.tool_variables import is_inherited, is_listed
from humanlayer_agent.redaction.redactor import Redactor, settings_without_secrets
from humanlayer_agent.redaction.secret_names import is_secret_variable
from humanlayer_agent.shell import HOST, View
from humanlayer_agent.undo.kept_files import Kept, KeptFiles

if TYPE_CHECKING:
    from humanlayer_agent.policy.director import Director

logger = logging.getLogger("humanlayer_agent")

CONFINE_VARIABLE = "HUMANLAYER_CONFINE"
"""Says for every agent whether commands are confined, where its settings say nothing."""
PROOFS, _RUNS, _CACHES, _ASIDE = "confine", "runs", "caches", "moved-aside"
_HELD = (
    *("read-only file system", "operation not permitted", "permission denied", "erofs", "eacces", "eperm"),
    *("network is unreachable", "name resolution", "could not resolve", "couldn't resolve", "enetunreach", "eai_again"),
    *("enotfound", "name or service not known", "nodename nor servname", "failed to lookup address", "no such host"),
    *("failed to resolve", "connection refused", "econnrefused", "cannot connect to the docker daemon"),
)
"""What programs print, in lower case, whom a confinement has kept from something."""
_NETWORKS = {
    "none": "with no network",
    "forwarded": "with TCP to the hosts named there, HTTP through the proxy of http_proxy, and no other network, so "
    "neither UDP nor ssh",
    "host": "with the network",
}
_MOST_NAMED = 10
_ASKED_WHO = ("401", "403", "unauthorized", "forbidden", "authentication", "authenticate", "eneedauth", "log in")
"""What programs print, in lower case, whom a server has asked who they are."""
_LARGEST_SETTINGS = 1 << 21  # characters
_NAMES_FILE = re.compile(r"^\s*(?:constraint|cert|cafile|cainfo)\s*=\s*[\"']?(/[^\s\"']+)", re.MULTILINE)
"""A setting without whose file a tool does not start."""
_PLAIN_NAME = re.compile(r"[\w.+@-]{1,60}")
_KEPT_BY_GIT = re.compile(
    r"(?:unable to (?:unlink|create|write)|cannot (?:create|unlink|rename|update))[^\n]*"
    r"(?:Read-only file system|Device or resource busy|Permission denied|Operation not permitted)"
)
_LONGEST = 200
_LOOKED_AT = 20_000  # characters of an output, its last
_ABSOLUTE = re.compile(r"(?<![\w./~-])/[\w.@+-][\w./@+-]*\w")
_OWN = ("/tmp/", "/proc/", "/dev/", "/sys/")
_MOST_SHOWN = 1000
_LONGEST_LOOK_S = 10.0
_KEPT_S = 7 * 24 * 3600.0
"""Seconds that the /tmp of a run is kept after its last command."""


@dataclass(frozen=True, slots=True)
class RunEnclosures:
    """What encloses the commands of one run.

    Args:
        backend: holds them: bubblewrap, proven here; or Landlock, which confines nothing.
        temporary: the folder that they see as /tmp: what one leaves there the next one finds.
        caches: the folder in which their tools keep what they need again, of this project alone.
        aside: the folder to which is moved what they leave where it would be run later by itself.
        project: the directory that they work for.
        repository: the repository of git's that the project is a further worktree of, as a path set; "" where it is
            none. Commands that Landlock alone holds can write it, as they can where it lies in the project.
        name: what a human called the run; "" where nobody did.
    """

    backend: Bubblewrap | landlock.Landlock
    temporary: str
    caches: str
    aside: str
    project: str
    repository: str = ""
    name: str = ""
    _shown: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict, compare=False, repr=False)
    """By confinement: what the repository has of the files that it hides, looked up before the first command."""

    @classmethod
    def of(cls, run: str, project: Path | str) -> Self:
        """Return those of a run, where a backend holds commands on this machine.

        Args:
            run: names the run.
            project: the directory that it works for.

        Raises:
            Unenforceable: none does; why, and what would change it.
            OSError: a folder can't be made.
        """
        return cls._with(proven(state_path(PROOFS)).backend, run, project)

    @classmethod
    def reduced(cls, run: str, project: Path | str) -> Self:
        """Return those of a run whose commands are held by Landlock alone; arguments and errors are those of `of`."""
        made = cls._with(landlock.find(), run, project)
        folder = repository_folder(made.project)
        return replace(made, repository="" if folder == made.project else folder + TREE)

    @classmethod
    def _with(cls, backend: Bubblewrap | landlock.Landlock, run: str, project: Path | str) -> Self:
        _forget(state_path(_RUNS))
        top = os.path.realpath(project)
        folders = (_folder(_RUNS, run), _folder(_CACHES, top), _folder(_ASIDE, top))
        for folder in folders:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        return cls(backend, *folders, top)

    @property
    def confines(self) -> bool:
        """Tell whether verdicts may count on it."""
        return isinstance(self.backend, Bubblewrap)

    @property
    def view(self) -> View:
        """Return what of the disk they see that is not the machine's; what it shows them besides, a policy says."""
        return View(self.temporary, shown=(self.caches,))

    def enclosure(
        self, confinement: Confinement, expected: tuple[str, ...] = (), removed: tuple[str, ...] = ()
    ) -> Enclosure:
        """Return what a command is started in (see `processes.execution.run_command`).

        Args:
            confinement: what the command can reach.
            expected: path sets where it may make what is protected.
            removed: path sets of what it removes, with what is protected there.

        Raises:
            Unenforceable: it can't be confined.
        """
        if not isinstance(self.backend, Bubblewrap):
            raise Unenforceable(f"{self.backend.name} alone confines nothing")
        os.utime(self.temporary)  # it is in use
        shown = self._shown.get(confinement.digest)
        if shown is None:
            shown = self._shown[confinement.digest] = self._in_repository(confinement)
        folders = (self.temporary, self.aside, expected, self.caches)
        return Enclosure(self.backend, confinement, *folders, shown, removed, *_settings(home_folder(), confinement))

    def layered(self, confinement: Confinement, folder: str) -> LayeredEnclosure:
        """Return what a held run is started in: layers lie over all that it can write.

        Args:
            confinement: what the command can reach.
            folder: our own and empty, for the layers.

        Raises:
            Unenforceable: it can't be confined.
            OSError: a layer can't be made.
        """
        plain = self.enclosure(confinement)
        places = (self.project, self.temporary, self.caches)
        layers = tuple(Over.made(place, f"{folder}/{number}") for number, place in enumerate(places))
        return LayeredEnclosure(**{each.name: getattr(plain, each.name) for each in fields(plain)}, layers=layers)

    def try_out(self, profile: Profile | None, cwd: str) -> None:
        """Look whether a command could be confined in this project, as far as that can be seen without one.

        Args:
            profile: what it can reach.
            cwd: where it starts.

        Raises:
            Unenforceable: no command could be confined to it now.
        """
        if profile is not None and isinstance(self.backend, Bubblewrap):
            confinement = Confinement((profile,))
            self.backend.words(confinement, cwd=cwd, temporary=self.temporary, aside=self.aside, caches=self.caches)
            if confinement.writes(f"{self.project}/x") and not _writes_without_privilege(self.project):
                raise Unenforceable(
                    f"{self.project} belongs to another user, and what runs confined could change nothing there: "
                    "give it to root (chown -R root), or run as its owner"
                )

    def files(self) -> ProjectFiles:
        """Return the files of the project: which of them its last commit has, as git says, held to reading."""
        asked = None
        if isinstance(self.backend, Bubblewrap):
            with suppress(ConfigError):
                asked = Asked(self.backend, find_program("git"), self.temporary, self.aside)
        return project_files(self.project, asked)

    def keep(self, run: str, confinement: Confinement, bounds: Bounds) -> Kept:
        """Keep the files of the project that would be lost that no commit has."""
        name, kept = self.name or run, KeptFiles(kept_folder())
        if is_writable(confinement, os.path.realpath(kept.folder)) or confinement.reads(os.path.realpath(kept.folder)):
            raise Unenforceable(f"{kept.folder} is where a command can reach it")
        if (earlier := kept.of(name, self.project)) is not None:
            return earlier
        looked = survey(confinement)
        held = looked.hidden | looked.protected

        def wanted(path: str) -> bool:
            return held.isdisjoint(_with_parents(path, self.project))

        untouchable = (*confinement.entries("protect"), *confinement.entries("hide"))
        made = kept.keep(name, self.project, self.files(), bounds=bounds, wanted=wanted, untouchable=untouchable)
        if made.left_out:
            logger.warning(
                "Warning: %d files of %s are not kept for an undo: hla undo show --run %s says which, and why.",
                *(made.left_out, self.project, name),
            )
        return made

    def restriction(self, confinement: Confinement, env: Mapping[str, str]) -> landlock.Restriction:
        """Return what a command that is not confined is held to all the same (see `processes.execution.run_command`).

        Args:
            confinement: what it can reach, as far as that can be held.
            env: its environment.

        Raises:
            Unenforceable: the backend is another one.
        """
        if not isinstance(self.backend, landlock.Landlock):
            raise Unenforceable(f"{self.backend.name} holds only what is confined")
        home, temporary = env.get("HOME", ""), env.get("TMPDIR", "")
        also = (self.caches + TREE, *shared_caches(home), *filter(None, (self.repository,)))
        if os.path.isabs(temporary) and not is_below(home, os.path.realpath(temporary)):
            also = (*also, os.path.realpath(temporary) + TREE)
        return landlock.Restriction(self.backend, confinement, also)

    def _in_repository(self, confinement: Confinement) -> dict[str, frozenset[str]]:
        """Return what git has in its last commit of the files that are hidden: `git ls-tree`, which can write nothing
        here, since the settings of a repository may have git run anything.
        """
        below = f"{self.project}/"
        found = sorted(path for path in survey(confinement).hidden if path.startswith(below))
        hidden = [path.removeprefix(below) for path in found][:_MOST_SHOWN]
        if not hidden or not os.path.lexists(f"{self.project}/.git"):
            return {}
        reading = Confinement(tuple(replace(each, protect=each.write) for each in confinement.profiles))
        assert isinstance(self.backend, Bubblewrap)
        enclosure = Enclosure(self.backend, reading, self.temporary, self.aside)
        asked = (each for path in hidden for each in sources(path))
        env = self.environment(os.environ)
        try:
            words = (find_program("git"), "ls-tree", "-z", "HEAD", "--", *asked)
            _, said = enclosure.answer(words, cwd=self.project, env=env, seconds=_LONGEST_LOOK_S)
        except (ConfigError, Unenforceable):
            return {}
        return kept_contents(hidden, said, self.project)

    def environment(
        self,
        environ: Mapping[str, str],
        extra_env: Mapping[str, str] | None = None,
        pass_env: Iterable[str] = (),
        project: str = "",
    ) -> dict[str, str]:
        """Return the environment of the run's commands: of a confined one, all of ours that holds no secret and leads
        nowhere outside.

        Args:
            environ, extra_env, pass_env, project: see `processes.execution.command_environment`.
        """
        if not self.confines:
            given = command_environment(environ, extra_env, pass_env, project)
            # Else SQLite takes /var/tmp, which it is told that it can write. https://www.sqlite.org/tempfiles.html
            temporary = {"SQLITE_TMPDIR": given.get("TMPDIR") or "/tmp"}
            return {**temporary, **given, **cache_variables(given.get("HOME", ""), self.caches, self.project)}

        def inherits(name: str, value: str) -> bool:
            return is_listed(name, value) or (is_inherited(name, value, project) and not _is_secret(name, value))

        given = command_environment(environ, extra_env, pass_env, project, inherits=inherits)
        return confined_environment(given, caches=self.caches, project=self.project)


def _with_parents(path: str, project: str) -> Iterator[str]:
    while len(path) > len(project):
        yield path
        path = os.path.dirname(path)


@lru_cache(maxsize=1024)
def _is_secret(name: str, value: str) -> bool:
    return is_secret_variable(name) or bool(Redactor().text(value).erased)


def view_of(run: str, project: Path | str) -> View:
    """Return what confined commands of a run see of the disk, whether or not one was started, or can be.

    Args:
        run: names the run.
        project: the directory that it works for.
    """
    temporary, caches = _folder(_RUNS, run), _folder(_CACHES, os.path.realpath(project))
    return View(temporary if os.path.isdir(temporary) else "", shown=(caches,))


def directed(
    policy: Path | str | None,
    *,
    project: Path | str,
    confine: bool | None = None,
    observe: bool = False,
    run: str | None = None,
    cwd: str | None = None,
    path: str | None = None,
    container: Any = None,
) -> "tuple[Director, RunEnclosures | None]":
    """Return who judges the commands of a run, and what encloses those that it allows; None where nothing does.

    Args:
        policy, project, observe: see `configuration.build_director`.
        confine: True: they are confined, or there is no run. False: nothing is. None: they are wherever that can be
            enforced, if the policies say to what, and are not only observed. Where it can't, one line says why, and
            where bubblewrap is there and can't be used, Landlock holds them.
        run: names the run; a new one where it is None.
        cwd: where its commands start, as far as that is known; the project where it is None.
        path: their PATH, where it is not ours: what they need to read goes by it.
        container: the environment of mini's that runs them elsewhere (see `agents.containers`).

    Raises:
        ConfigError: they must be confined, and can't be.
        PolicyError: a policy has a mistake.
    """
    from humanlayer_agent.configuration import build_director, confines

    name, run, confine = run or "", run or secrets.token_hex(16), wanted(confine)
    environ = os.environ if path is None else {**os.environ, "PATH": path}
    judge = partial(build_director, policy, project=project, environ=environ, observe=observe, run=run)
    confinable = confine is not False and confines(policy, project=project, observe=observe)
    if not confine and not confinable:
        return judge(), None
    if not confinable:
        raise ConfigError("confine: no policy that is enforced says to what (`defaults: {confine: NAME}`)")
    try:
        if container is not None:
            return judge(container=confinement_of(container)), None
        enclosures = replace(RunEnclosures.of(run, project), name=name)
        director = judge(confined=enclosures.view)
        enclosures.try_out(director.in_force().confine, cwd or enclosures.project)
        return director, enclosures
    except (Unenforceable, OSError) as why:
        if confine:
            raise ConfigError(f"confine: commands can't be confined here: {why}") from None
        _say_once(f"Commands are not confined: {why}. (`hla doctor` says more; `confine: false` ends this line.)")
    if container is not None:
        return judge(), None
    try:
        find()  # where it is not installed, nobody has asked for anything
        return judge(reduced=True), RunEnclosures.reduced(run, project)
    except (Unenforceable, OSError):
        return judge(), None


def wanted(confine: bool | None) -> bool | None:
    """Return what a setting `confine` comes to: where it says nothing, what $HUMANLAYER_CONFINE says.

    Raises:
        ConfigError: the variable is neither true nor false.
    """
    said = os.environ.get(CONFINE_VARIABLE, "")
    if said not in ("", "true", "false"):
        raise ConfigError(f"{CONFINE_VARIABLE} is true or false, not {said!r}")
    return {"true": True, "false": False}.get(said) if confine is None else confine


def _writes_without_privilege(folder: str) -> bool:
    """Tell whether we can write in a folder by its rights alone: what runs confined has no capability of root's."""
    found = os.stat(folder)
    groups = {os.getegid(), *os.getgroups()}
    right = stat.S_IWUSR if found.st_uid == os.geteuid() else stat.S_IWGRP if found.st_gid in groups else stat.S_IWOTH
    return bool(found.st_mode & right)


@cache
def _say_once(line: str) -> None:
    logger.warning("%s", line)


def run_permitted(
    permit: Permit,
    enclosures: RunEnclosures | None,
    *,
    timeout: float,
    keep_background: bool = False,
    caller: Caller | None = None,
) -> CommandResult:
    """Run the command of a permit on this machine, confined where it may run only so.

    Args:
        permit: lets it run; it was started.
        enclosures: those of the run; None where nothing is confined.
        timeout, keep_background, caller: see `processes.execution.run_command`, which also says what is raised.

    Raises:
        Unenforceable: it may run only confined, and that can't be enforced here; or it was judged by files that it
            would not see; or the log says that it is held, and it would not be.
    """
    action, confinement, reduced = permit.action, permit.decision.confinement, permit.decision.reduced
    if action.layer:
        raise NotApplied("it is what a held run has changed that was approved, and nothing here applies that")
    view = HOST if confinement is None or enclosures is None else enclosures.view
    if permit.decision.view.temporary != view.temporary:
        raise Unenforceable("it was judged with another /tmp than it would have now")
    run = partial(
        run_command,
        (*action.interpreter, action.content),
        cwd=action.cwd,
        env=action.env,
        timeout=timeout,
        judged=permit.judged,
        keep_background=keep_background,
        caller=caller,
    )
    if confinement is None and reduced is None:
        return run()
    if enclosures is None:
        raise Unenforceable(f"it is to run {permit.decision.runs}, and nothing here holds it to that")
    if confinement is not None:
        enclosure = enclosures.enclosure(confinement, *_known_changes(permit))
        result = say_moved(run(confinement=enclosure))
        if kept := _mixed(result, permit.decision):
            logger.warning("Warning: the work tree may be a mixture of two versions: %s", "; ".join(kept))
        return replace(result, note=_note(result, permit.decision, enclosure.withheld))
    assert reduced is not None
    restriction = enclosures.restriction(reduced, action.env)
    result = run(restriction=restriction)
    return replace(result, note=f"({restriction.had})" if result.returncode and _shows(_HELD, result.output) else "")


def say_moved(result: CommandResult) -> CommandResult:
    """Return the result of a confined command, and tell people what of it was moved aside."""
    for each in result.moved:
        logger.warning("Warning: a confined command left %s, which could run code later: %s", each.path, _where(each))
    return result


def _note(result: CommandResult, decision: PolicyDecision, withheld: Iterable[str]) -> str:
    """What a confined command has left that is gone, what it may have failed for, and how its agent asks for more; ""
    where there is nothing to say.
    """
    said = []
    if taken := [each.path for each in result.moved]:
        said.append(f"(Undone, since it could run code later: {', '.join(taken)}.)")
    if mixed := _mixed(result, decision):
        kept = "; ".join(mixed)
        said.append(f"(The work tree may be a mixture of two versions now, since protected files were kept: {kept}.)")
    # Names with a dot are what tools keep for themselves: nobody looks for them.
    if gone := [name for name in result.lost if not name.startswith(".")]:
        said.append(f"(The home folder is a new one for each command, so what it made there is gone: {_few(gone)}.)")
    if result.returncode and (partly := ", ".join(withheld)) and _shows(_ASKED_WHO, result.output):
        said.append(f"(Without what is secret in it, it saw {partly}.)")
    return "\n".join([*said, *filter(None, (_lack(result, decision),))])


def _few(names: Sequence[str]) -> str:
    """Some of these names in the home folder; none that could say more than a name does: a command has made them up."""
    plain = [f"~/{name}" for name in names if _PLAIN_NAME.fullmatch(name)][:_MOST_NAMED]
    more = len(names) - len(plain)
    return " and ".join(filter(None, (", ".join(plain), f"{more} more" if more else "")))


def _settings(home: str, confinement: Confinement) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """What is seen of the files with which tools are set up for all projects, and of those that they name, where the
    confinement does not open them; and which of them are not seen whole.
    """
    seen: dict[str, bytes] = {}
    partly: list[str] = []
    paths = list(settings_files(home))
    own = len(paths)
    for number, path in enumerate(paths):  # what is named comes at its end
        if path in seen or confinement.reads(path):
            continue
        try:
            about = os.stat(path)
            if not stat.S_ISREG(about.st_mode):
                continue
            whole, left = _settings_file(path, about.st_ino, about.st_size, about.st_ctime_ns)
        except (OSError, ValueError):
            continue
        if left is not None:
            seen[path] = left.encode()
        if not whole:
            partly.append(path)
        paths += _NAMES_FILE.findall(left or "") if number < own else []
    return seen, tuple(partly)


@lru_cache(maxsize=256)
def _settings_file(path: str, *_state: int) -> tuple[bool, str | None]:
    """Whether such a file is seen whole, and what of it is seen."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read(_LARGEST_SETTINGS)
    left = text if is_public(path) else settings_without_secrets(text)
    return left == text, left


def _mixed(result: CommandResult, decision: PolicyDecision) -> list[str]:
    """Return what git says of files that it could not replace. It may go on, and succeed."""
    if all(part.program != "git" for part in decision.parts):
        return []
    return list(dict.fromkeys(found[0][:_LONGEST] for found in _KEPT_BY_GIT.finditer(result.output[-_LOOKED_AT:])))[:5]


def _lack(result: CommandResult, decision: PolicyDecision) -> str:
    if result.returncode in (0, None) or decision.confinement is None:
        return ""
    refused = sorted(result.network.get("refused", {}))
    shown = refused or _shows(_HELD, result.output)
    if not shown and not _names_what_is_not_there(result.output, decision.confinement):
        return ""
    return (
        f"(It ran {decision.runs}: {_NETWORKS[decision.confinement.network]}, and what lies elsewhere could not be "
        + (f"written; it was refused {', '.join(refused[:_MOST_NAMED])}. " if refused else "written. ")
        + "If it failed for that, propose it again below a first line that says what it needs, and a human is asked: "
        "`# needs: network`, `# needs: network some.host:5432`, `# needs: write /some/folder`, "
        "`# needs: read /some/file` or `# needs: unconfined`.)"
    )


def _shows(signs: Iterable[str], text: str) -> bool:
    """Tell whether a program has printed one of these, which are in lower case."""
    shown = text[-_LOOKED_AT:].lower()
    return any(sign in shown for sign in signs)


def _names_what_is_not_there(text: str, confinement: Confinement) -> bool:
    """Tell whether a path stands in a text that the machine has, and the command had not."""
    paths = {os.path.normpath(path) for path in _ABSOLUTE.findall(text[-_LOOKED_AT:])[: _LOOKED_AT // 100]}
    return any(
        os.path.isdir(os.path.dirname(path)) and not confinement.reads(path) and not path.startswith(_OWN)
        for path in paths
    )


def _where(moved: MovedAside) -> str:
    if not moved.kept and moved.restored:
        return "it was removed, and is there again"
    if not moved.kept:
        return "it can't be moved aside, so look at it before anything runs there"
    return f"it is now {moved.kept}" + (", and what was there is there again" if moved.restored else "")


def _known_changes(permit: Permit) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where it was seen that the command makes something, a repository (`git init`) or a virtual environment, and where
    it removes something. That is nowhere, where something runs that nobody can read.
    """
    action, decision = permit.action, permit.decision
    effects = [(part.program, effect) for part in decision.parts for effect in part.effects]
    if any(effect.unread or not effect.resolved for _, effect in effects) or decision.unresolved:
        return (), ()
    above = f"{action.project}/"
    found = [(program, e.kind, os.path.normpath(e.operand)) for program, e in effects if e.operand]
    made = [path for by, kind, path in found if kind == "write" and (by == "git" or not above.startswith(f"{path}/"))]
    gone = [path for by, kind, path in found if kind == "delete" and by in ("rm", "git") and path.startswith(above)]
    return tuple(f"{path}/**" for path in made), tuple(f"{path}/**" for path in gone)


def _folder(kind: str, text: str) -> str:
    """The folder of a run or a project, by a path without links."""
    name = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.realpath(state_path(kind, name))


def _forget(folder: str) -> None:
    """Remove what runs have left in their /tmp long ago."""
    try:
        with os.scandir(folder) as runs:
            old = [run.path for run in runs if time.time() - run.stat(follow_symlinks=False).st_mtime > _KEPT_S]
    except OSError:
        return
    for run in old:
        shutil.rmtree(run, ignore_errors=True)
