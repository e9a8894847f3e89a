"""Settles doubt by a confinement: what can't be known of a command ranges over what the kernel lets through. And says
what an approved command runs in.

What is certain is judged as without it: `rm -rf /srv/x` asks, it is not tried. What can be read as the confinement's
`read` says was given to every command that it confines; the question that is left is what happens within `write`.
"""

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from humanlayer_agent.confine.confinement import TREE, Confinement, Network, Profile, is_below, is_plain, within
from humanlayer_agent.confine.hosts import PUBLIC, Allowed, is_here, parsed, written
from humanlayer_agent.confine.survey import Wanted
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.path_patterns import PathSet, fill
from humanlayer_agent.policy.conditions.pattern_overlap import overlap
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.needs_line import ROLE as NEEDED
from humanlayer_agent.policy.needs_line import UNCONFINED, asked_for
from humanlayer_agent.shell import (
    LASTING,
    LOSS,
    TEMPORARY,
    VERSION,
    WRITTEN,
    Catalog,
    Effect,
    Program,
    SimpleCommand,
    View,
)

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Situation
    from humanlayer_agent.policy.conditions.evaluation import Judged

_READS = frozenset({"read", "execute"})
_WRITES = frozenset({"write", "append", "metadata"})
_IN_PLACE = frozenset({"redirect", NEEDED})
"""How a file is written that is the same file afterwards: one that is mounted by itself can't be replaced."""
_NEEDED = "the network"
_ALLOWED = "allowed hosts"
_OF_ITS_OWN = ("/proc", "/dev", "/sys")
"""What a confined command has of its own: it would find something else there than what was approved."""
_OURS = ("OWN_PROGRAMS", "PACKAGE")
"""Where the supervisor itself is installed: no confinement lets that be written, whatever it says."""
_SHOWN = 3
_BY_NAME = frozenset({"operand", "redirect", NEEDED})
"""The roles of the effects of which the operand is a host, and not what is said of one that nobody knows."""
_MOST_FOLDERS = 100_000
_PATHS = frozenset({"read", "write", "append", "delete", "move", "metadata", "persist"})
_WITH_PRIVILEGE = frozenset({"privilege", "container", "system"})
"""They need what no confined command has."""
_NOT_HELD = _WITH_PRIVILEGE | {"network", "listen", "process", "package", "persist"}
"""What is done to something else than files: nothing that was done to a copy of them would show it."""


def profile(name: str, written: Mapping[str, Any], variables: Mapping[str, str], reads: Sequence[str] = ()) -> Profile:
    """Return a confinement of a policy, its variables filled in.

    Args:
        name: what the policy calls it.
        written: as `Policy.confinements` has it.
        variables: the values of `${NAME}`.
        reads: further path sets that can be read.

    Raises:
        PolicyError: a variable that is not known, or a pattern that can't be held to.
    """
    sets: dict[str, tuple[str, ...]] = {}
    for kind in ("read", "write", "protect", "hide"):
        entries = [*written[kind], *(reads if kind == "read" else ())]
        sets[kind] = tuple(dict.fromkeys(_absolute(fill(entry, variables)) for entry in entries))
    ours = (variables[each] + TREE for each in _OURS if each in variables)
    sets["protect"] = tuple(dict.fromkeys((*sets["protect"], *ours)))
    try:
        network = written["network"]
        hosts = tuple(written["hosts"]) or (PUBLIC,) if network == "forwarded" else ()
        return Profile(name, **sets, network=network, hosts=hosts)
    except ValueError as error:
        raise PolicyError(str(error)) from None


class Protection:
    """What none of some profiles lets a command change, although it lies where they let it write.

    Args:
        profiles: those that a command may get.
    """

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._profiles = [situated(each) for each in profiles]
        self._wanted = Wanted(self._profiles[0].protect if self._profiles else ())
        self._folders: dict[str, bool] = {"": False, "/": False}

    def __bool__(self) -> bool:
        return any(profile.protect for profile in self._profiles)

    def has(self, path: str) -> bool:
        """Tell whether an absolute path without links is protected."""
        above, _, name = path.rpartition("/")
        if not (self._wanted.has(name, path) or self._below(above)):
            return False
        return all(within(path, each.write) and within(path, each.protect) for each in self._profiles)

    def _below(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            above, _, name = folder.rpartition("/")
            known = self._wanted.has(name, folder) or self._below(above)
            if len(self._folders) < _MOST_FOLDERS:
                self._folders[folder] = known
        return known


@lru_cache(maxsize=4096)
def _absolute(entry: str) -> str:
    absolute = "/" + entry if entry.startswith("**/") else entry
    if not absolute.startswith("/"):
        raise PolicyError(f"{entry!r}: a path of a confinement begins with /, ~, ${{NAME}} or **/")
    return posixpath.normpath(absolute)


@lru_cache(maxsize=64)
def situated(profile: Profile) -> Profile:
    """Return a profile as it is on this machine: with the places that its path sets lead to through symbolic links.

    What leads elsewhere can't be mounted over, so it is the real place alone that is written.
    """
    plain: set[str] = set()
    return replace(
        profile,
        read=_with_real(profile.read, plain),
        write=tuple(dict.fromkeys(_real(entry, plain) for entry in profile.write)),
        protect=_with_real(profile.protect, plain),
        hide=_with_real(profile.hide, plain),
    )


def _with_real(entries: Iterable[str], plain: set[str]) -> tuple[str, ...]:
    spelled = ((entry, _real(entry, plain)) if is_plain(entry) else (entry,) for entry in entries)
    return tuple(dict.fromkeys(each for both in spelled for each in both))


def _real(entry: str, plain: set[str] | None = None) -> str:
    """Return where a path set is; `plain`, where it is normalised, are directories known to be no links."""
    base = entry.removesuffix(TREE)
    real = os.path.realpath(base or "/") if plain is None or _led_through(base, plain) else base or "/"
    return real + TREE if entry.endswith(TREE) and real != "/" else real if base else entry


def _led_through(path: str, plain: set[str]) -> bool:
    """Tell whether a component of `path` (absolute, normalised) is a link, or there are two `/` before it; `plain` are
    those that are known to be none.
    """
    if path[:2] == "//":
        return True
    end = 0
    while end >= 0:
        end = path.find("/", end + 1)
        part = path if end < 0 else path[:end]
        if part not in plain:
            try:
                if stat.S_ISLNK(os.lstat(part).st_mode):
                    return True
            except OSError:  # nothing is seen there, nor below
                return False
            plain.add(part)
    return False


def reduced(profile: Profile, effects: Iterable[Effect]) -> Confinement | None:
    """Return what a command, allowed for what runs unconfined, is held to by a backend that no verdict counts on.

    That is the policy's confinement, and whatever else the command is known to do: it must not break what was allowed.
    None where all could be open, or it needs rights that are gone then.
    """
    paths: dict[str, list[str]] = {"read": [], "write": []}
    # Landlock forwards nothing: what is to reach some hosts reaches all.
    network: Network = "none" if profile.network == "none" else "host"
    for effect in effects:
        if effect.kind in _WITH_PRIVILEGE:
            return None
        if effect.kind in ("network", "listen", "execute"):
            network = "host"  # what code does that is run, tests for example, is not known, nor is it asked about
        if effect.kind in _PATHS or (effect.kind == "execute" and (effect.operand or "").startswith("/")):
            paths["read" if effect.kind in _READS else "write"].append(_touched(effect))
    if TREE in paths["read"] and TREE in paths["write"] and network == "host":
        return None
    named = Profile(profile.name, tuple(paths["read"]), tuple(paths["write"]), network=network)
    return Confinement((situated(profile), named))


def _touched(effect: Effect) -> str:
    """The path set of an effect on a path; everything where that is not known."""
    operand = posixpath.normpath(effect.operand or "")
    if not operand.startswith("/") or not is_plain(operand) or "\0" in operand or not (effect.resolved or effect.below):
        return TREE
    alone = effect.role == "list" or (effect.kind not in _READS and effect.resolved)
    return _real(operand if alone else operand.rstrip("/") + TREE)


def seen(view: View, profiles: Iterable[Profile]) -> View:
    """Return what commands see of the disk that are confined to one of these profiles, or to several.

    Args:
        view: the /tmp that they have, and what is shown in there to all.
        profiles: what they let through below /tmp and /var/tmp is as it is on this machine.
    """
    sets = [frozenset(_below_temporary(situated(each))) for each in profiles]
    everywhere, anywhere = frozenset.intersection(*sets), frozenset.union(*sets)
    there = {path for path in everywhere if os.access(path, os.R_OK)}
    return replace(view, shown=(*view.shown, *sorted(there)), unknown=(*view.unknown, *sorted(anywhere - there)))


def _below_temporary(profile: Profile) -> Iterator[str]:
    for entry in (*profile.read, *profile.write):
        path = entry.removesuffix(TREE)
        if path.startswith(f"{TEMPORARY}/") or is_below(path, LASTING) or (path and is_below(LASTING, path)):
            yield path


def impossible(
    program: Program, confinement: Confinement | None, approved: Confinement | None = None
) -> list[list[Effect]]:
    """Return the effects of each command that are in doubt, and that can't happen in this confinement.

    Args:
        approved: what the action runs in if a human approves it. What that opens, they are told of wherever it is
            known: of code that is only written, or that has a stand-in for it, as well.
    """
    if confinement is None:
        return [[] for _ in program.commands]
    read = all(effect.resolved for command in program.commands if WRITTEN in command.inside for effect in _run(command))

    def in_doubt(effect: Effect, command: SimpleCommand) -> bool:
        if not effect.resolved:
            return True
        # Code that is written, and read as a whole, is judged again when it is run, and held then too.
        unsure = not effect.sure or (read and WRITTEN in command.inside)
        return unsure and (approved is None or _held(effect.kind, approved))

    return [
        [effect for effect in command.effects if _held(effect.kind, confinement) and in_doubt(effect, command)]
        for command in program.commands
    ]


def _run(command: SimpleCommand) -> list[Effect]:
    return [effect for effect in command.effects if effect.kind == "execute"]


def without(program: Program, effects: Sequence[Sequence[Effect]]) -> Program:
    """Return `program` without these effects, given command by command."""
    if not any(effects):
        return program
    gone = {id(effect) for each in effects for effect in each}
    commands = [
        replace(command, effects=[e for e in command.effects if id(e) not in gone]) if each else command
        for command, each in zip(program.commands, effects, strict=True)
    ]
    return replace(program, commands=commands)


def _held(kind: str, confinement: Confinement) -> bool:
    """Tell whether the confinement holds all effects of a kind: no other process is there to be reached, or no other
    machine.
    """
    if kind == "network":
        return confinement.network == "none"
    return kind == "process" or (kind == "listen" and confinement.network != "host")


def unseen(kinds: frozenset[str], confinement: Confinement | None) -> bool:
    """Tell whether a command that is not understood may have an effect of one of these kinds, as far as is known."""
    if confinement is None:
        return True
    return any(kind not in _WITH_PRIVILEGE and not _held(kind, confinement) for kind in kinds)


def some(paths: PathSet, effect: Effect, confinement: Confinement) -> bool:
    """Tell whether an effect, of which it is not known where, can touch something in `paths`."""
    return _some(paths, effect.kind in _READS, confinement)


def hidden(paths: PathSet, effect: Effect, confinement: Confinement) -> bool:
    """Tell whether nothing in `paths` can be read by a wildcard: all that it may match can be written, and is hidden.

    Nothing is hidden of what can be read only.
    """
    if effect.kind != "read" or effect.pattern is None or effect.operand is None:
        return False
    texts = [pattern.text for pattern in paths.patterns]
    return all(
        within(effect.operand, _writable(each)) and all(_excluded(text, each.hide) for text in texts)
        for each in confinement.profiles
    )


def any_of(paths: PathSet, confinement: Confinement) -> bool:
    """Tell whether anything in `paths` can be touched in any way."""
    return _some(paths, True, confinement) or _some(paths, False, confinement)


@lru_cache(maxsize=4096)
def every(paths: PathSet, confinement: Confinement) -> bool:
    """Tell whether whatever an effect touches, of which it is not known where, is in `paths`."""
    return all(
        paths.has_all(entry.removesuffix(TREE)) if entry.endswith(TREE) else paths.has(entry)
        for each in confinement.profiles
        for entry in _writable(each)
    )


@lru_cache(maxsize=4096)
def _some(paths: PathSet, reads: bool, confinement: Confinement) -> bool:
    return any(
        _reachable(paths, _writable(each), each.hide if reads else (*each.hide, *each.protect))
        for each in confinement.profiles
    )


def _reachable(paths: PathSet, entries: Sequence[str], but: tuple[str, ...]) -> bool:
    """Tell whether anything in `paths` is in one of `entries` and not in `but`, as far as can be told."""
    patterns = [pattern.text for pattern in paths.patterns if not _excluded(pattern.text, but)]
    trees = [entry.removesuffix(TREE) for entry in entries if not _excluded(entry, but)]
    return any(overlap(tree, pattern, recursive=True) for tree in trees for pattern in patterns)


def _writable(profile: Profile) -> tuple[str, ...]:
    return (*profile.write, TEMPORARY + TREE)


def _excluded(pattern: str, entries: tuple[str, ...]) -> bool:
    """Tell whether all that a policy's pattern matches is in one of these path sets."""
    pattern = "/" + pattern if pattern.startswith("**/") else pattern
    trees, beginnings = _trees(entries)
    if pattern in entries or pattern + TREE in entries or pattern.startswith(beginnings):
        return True
    fixed = pattern.removesuffix(TREE)
    while not is_plain(fixed):
        fixed = posixpath.dirname(fixed)
    whole = fixed == pattern
    return fixed != "/" and within(fixed, entries if whole else trees)


@lru_cache(maxsize=256)
def _trees(entries: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the path sets that are a folder and all below it; and what begins all that lies in one, as written."""
    trees = tuple(entry for entry in entries if entry.endswith(TREE))
    return trees, tuple(entry.removesuffix("**") for entry in trees)


def widened(held: Confinement, judged: Sequence["Judged"], view: View, catalog: Catalog) -> Confinement | None:
    """Return what an action that is asked about runs in, once it was approved; None where it runs unconfined.

    It is confined where each rule that asks says by `approved` to what. What the rules open comes on top of `held`, and
    so do the paths that they ask about. What is not known of it stays held: the human was not told of it either.

    Args:
        held: what it would run in if it were allowed.
        judged: the hits on each of its commands.
        view: what of the disk it was judged in: it is to see the same.
        catalog: what is known of programs.
    """
    profiles = list(held.profiles)
    commands = [each.command for each in judged]
    reads: list[str] = []
    writes: list[str] = []
    lifts: list[str] = []
    for each in judged:
        asking = [hit for hit in each.hits() if hit.verdict is Verdict.ASK]
        if items := asked_for(each.command):
            opens = UNCONFINED not in items and all(_open(e, held, view, reads, writes) for e in each.command.effects)
            profiles += _needed(each.command)
        elif asking:
            versions = [hit.effect for hit in asking if hit.effect is not None and hit.effect.role == VERSION]
            # Work that git would throw away lies where it can write in any case.
            others = [h for h in asking if h.effect is None or h.effect.role not in (VERSION, LOSS)]
            rules = [hit.rule.approved if hit.rule is not None else None for hit in others]
            found = [_narrowed(rule, hit.effect, commands) for rule, hit in zip(rules, others, strict=True) if rule]
            profiles += [situated(profile) for profile in found]
            opens = all(_open(hit.effect, held, view, reads, writes) for hit in others)
            replaced = frozenset(effect.operand for effect in versions)
            opens = opens and all(_lift(effect, held, view, lifts, replaced) for effect in versions)
            opens = opens and all(rules) and not needs(each.command, catalog)
        else:
            continue
        if not opens:
            return None
    profiles += filter(None, [allowed_hosts(judged)])
    profiles += opened(list(dict.fromkeys(reads)), list(dict.fromkeys(writes)), held)
    if lifts:
        lifts = list(dict.fromkeys(lifts))
        profiles.append(Profile(f"replacing {_listed(lifts)}", lift=tuple(lifts)))
    return Confinement(tuple(dict.fromkeys(profiles)))


def holdable(commands: Sequence[SimpleCommand], situation: "Situation") -> Confinement | None:
    """Return what an action that is asked about can run in to be looked at before it counts; None where it can't: its
    certain effects reach another machine or process, need what nothing confined has, or lie where they would not be
    seen. What a human's yes would open is not open to it: a path that an action names may lead to a server's socket.

    Args:
        commands: all of it. situation: what it was judged in.
    """
    within_it = situation.confinement
    if within_it is None or situation.container is not None:
        return None
    if any(needs(command, situation.catalog) for command in commands):
        return None
    view = situation.links.view
    for effect in (effect for command in commands for effect in command.effects):
        certain = effect.resolved and effect.sure
        if certain and effect.kind in _NOT_HELD:
            return None
        if not certain or effect.kind not in _PATHS or not (effect.operand or "").startswith("/"):
            continue
        path = view.real(effect.operand or "")
        own = any(is_below(path, each) for each in (TEMPORARY, LASTING, *_OF_ITS_OWN))
        if own and not within(path, (*within_it.entries("read"), *within_it.entries("write"))):
            continue  # what it has of its own
        if effect.kind in _READS:
            if not within_it.reads(path) and os.path.lexists(path):
                return None
        elif not within_it.writes(path):
            return None
    return within_it


def allowed_hosts(judged: Sequence["Judged"]) -> Profile | None:
    """Return what opens the hosts that rules allow by name; None where there are none, or where something in the action
    is not known that would reach them too.

    A rule that confines what it allows says by that what it opens.
    """
    commands = [each.command for each in judged]
    if not is_known(judged):
        return None
    found = [
        entry
        for each in judged
        for effect, hits in zip(each.command.effects, each.effects, strict=True)
        if any(hit.verdict is Verdict.ALLOW and hit.rule is not None and hit.rule.confined is None for hit in hits)
        and (entry := _named(effect, commands)) is not None
    ]
    hosts = tuple(dict.fromkeys(found))
    return Profile(_ALLOWED, network="forwarded", hosts=hosts) if hosts else None


def is_known(judged: Sequence["Judged"]) -> bool:
    """Tell whether nothing in an action is unknown that would reach what is opened for another command of it."""
    commands = [each.command for each in judged]
    return all(command.known for command in commands) and not any(map(_serves, commands))


def _needed(command: SimpleCommand) -> list[Profile]:
    """What opens the hosts that a command asks for by its first line."""
    asked = [effect for effect in command.effects if effect.kind == "network"]
    named = [_named(effect, ()) or PUBLIC for effect in asked]
    return [Profile(_NEEDED, network="forwarded", hosts=tuple(dict.fromkeys(named)))] if named else []


def _narrowed(profile: Profile, effect: Effect | None, commands: Sequence[SimpleCommand]) -> Profile:
    """What a rule opens that asks about one effect: of the network the host that it asks about, where that is known."""
    if profile.network != "forwarded" or effect is None or effect.kind not in ("network", "listen"):
        return profile
    if effect.kind == "listen" or (_is_loopback(effect) and any(map(_may_listen, commands))):
        return replace(profile, network="none", hosts=())
    entry = _named(effect, commands)
    return profile if entry is None else replace(profile, hosts=(entry,))


def _named(effect: Effect, commands: Sequence[SimpleCommand]) -> str | None:
    """The host that an effect reaches, as `confine.hosts.parsed` reads it; None where that is not known."""
    if effect.kind != "network" or not effect.resolved or effect.role not in _BY_NAME or effect.operand is None:
        return None
    loopback = _is_loopback(effect)
    if loopback and any(map(_may_listen, commands)):
        return None
    try:
        if effect.role == "redirect":
            host, ports = parsed(effect.operand)
            return written(host, ports[0]) if len(ports) == 1 else None
        entry = written(parsed(effect.operand)[0], int(effect.value) if effect.value else None)
        Allowed.of([entry])
    except ValueError:
        return None
    return None if loopback and not effect.value else entry


def _is_loopback(effect: Effect) -> bool:
    host = (effect.operand or "").rpartition(":")[0] if effect.role == "redirect" else effect.operand or ""
    return is_here(host)


def _may_listen(command: SimpleCommand) -> bool:
    """Tell whether a command may be a server, which is to stand where the forwarder would: so may the project's own
    code, which is not read (`npm start & curl localhost:3000`).
    """
    return _serves(command) or any(e.kind == "execute" and e.role == "project" for e in command.effects)


def _serves(command: SimpleCommand) -> bool:
    """Tell whether a command may use what is opened for another one: it listens, or nobody knows all of it."""
    if any(effect.kind == "listen" or effect.unread for effect in command.effects):
        return True
    return any(effect.kind == "execute" and not effect.resolved for effect in command.effects)


def opened(reads: Sequence[str], writes: Sequence[str], held: Confinement) -> list[Profile]:
    """Return the profiles that open these paths, and what lies below those that are directories.

    What `held` protects and hides stays so below them, but where they name it.

    Example:
        >>> held = Confinement((Profile("project", hide=("/etc/ssh/**",)),))
        >>> [each.name for each in opened(["/etc/hosts", "/etc/ssh/sshd_config"], [], held)]
        ['reading /etc/hosts', 'reading /etc/ssh/sshd_config']
    """
    hide, protect = held.entries("hide"), held.entries("protect")
    secret = [path for path in reads if within(path, hide)]
    kept = [path for path in writes if within(path, (*protect, *hide))]
    found = (
        _opened(reads, writes, (*secret, *kept), protect, hide),
        _opened(secret, kept, (), (), ()),
    )
    return [each for each in found if each.read or each.write]


def _opened(
    reads: Sequence[str], writes: Sequence[str], but: Sequence[str], protect: tuple[str, ...], hide: tuple[str, ...]
) -> Profile:
    ways = {"reading": [path for path in reads if path not in but], "writing": [p for p in writes if p not in but]}
    name = " and ".join(f"{how} {_listed(paths)}" for how, paths in ways.items() if paths)
    return Profile(name, _sets(ways["reading"]), _sets(ways["writing"]), protect, hide)


def needs(command: SimpleCommand, catalog: Catalog) -> tuple[str, ...]:
    """Return what a command can't do its work without that no confinement has (`shell.programs.spec.NEEDS`)."""
    if command.program is None:
        return ()
    spec = catalog.lookup(command.program)
    sub = command.subcommand or ""
    below = spec.subcommands.get(sub) if spec is not None else None
    family = catalog.lookup(f"{command.program} {sub.partition(' ')[0]}") if " " in sub else None
    found = (spec, below, catalog.lookup(f"{command.program} {sub}") if sub else None, family)
    return tuple(dict.fromkeys(need for each in found if each is not None for need in each.needs))


def _open(effect: Effect | None, held: Confinement, view: View, reads: list[str], writes: list[str]) -> bool:
    """Add the path of an effect to what is opened; False where no mount can open it."""
    operand = effect.operand if effect is not None and effect.resolved else None
    if effect is None or operand is None or not operand.startswith("/"):
        return True
    path = view.real(operand)
    if not (is_plain(operand) and is_plain(path)) or "\0" in operand:
        return False  # a name that would stand for others too
    if view.place(path) != path:
        return True  # in a /tmp of its own
    reading = effect.kind in _READS
    if not reading and effect.kind not in (*_WRITES, "delete", "move"):
        return True
    if held.reads(path) if reading else held.writes(path):
        return True
    if path == "/" or any(is_below(path, each) for each in _OF_ITS_OWN):
        return False
    if reading:
        reads.append(path)
        return True
    # What is made, or made anew, or removed takes the directory above: more than anybody was asked about.
    in_place = os.path.isdir(path) or (os.path.exists(path) and effect.role in _IN_PLACE)
    writes.append(path)
    return effect.kind in _WRITES and in_place


def _lift(effect: Effect, held: Confinement, view: View, lifts: list[str], replaced: frozenset[str | None]) -> bool:
    """Add a file that git replaces to those that it may; False where it is not known which one, or where a link stands
    that git replaces by the folder of it: no mount can open what is not there yet.
    """
    path = effect.operand
    if path is None or effect.kind == "vcs-rewrite":
        return False
    above, name = posixpath.split(path)
    if view.real(above) != above and any(is_below(above, each) for each in replaced if each):
        return False
    # Behind a link it would be another file that is replaced, which nobody was asked about.
    if view.place(path) == path and posixpath.join(view.real(above), name) == path and not held.writes(path):
        lifts.append(path)
    return True


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _SHOWN
    return ", ".join(paths[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _sets(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path + TREE if os.path.isdir(path) and path != "/" else path for path in paths))
