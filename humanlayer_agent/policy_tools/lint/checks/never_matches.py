"""never-matches: a name or pattern in a condition that no command can have, such as a path with a slash at its end."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions.path_patterns import PathSet, fill
from humanlayer_agent.policy.language.policy import Among, Match, Paths
from humanlayer_agent.policy_tools.lint import boundary_values, sample_commands
from humanlayer_agent.policy_tools.lint.finding import Check, Finding, Place
from humanlayer_agent.policy_tools.lint.subject import Part, Subject
from humanlayer_agent.shell import catalog

_VARIABLE = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*")


@dataclass(frozen=True, slots=True)
class _Dead:
    """An entry that can't match: where it stands, what is wrong with it, and a command that one would expect it of."""

    place: Place
    message: str
    command: str


def check(subject: Subject) -> Iterator[Finding]:
    """The conditions of every rule in force, and the lists that they name."""
    for part in subject.parts():
        for dead in _in_match(subject, part, part.match, (), ()):
            yield Finding(dead.place, part.rule.rule.id, dead.message, subject.case(dead.command).witness)
    yield from _in_lists(subject)


def _in_match(
    subject: Subject, part: Part, match: Match, path: tuple[str | int, ...], programs: Sequence[str]
) -> Iterator[_Dead]:
    """What is wrong in one condition. `programs` are those that the conditions around it name."""

    def at(*more: str | int) -> Place:
        return part.place(*path, *more)

    names = match.program.names if match.program is not None else None
    programs = names or programs
    for name in names or ():
        yield from _program(subject, at("program"), name)
    for name in match.subcommand or ():
        yield from _subcommand(subject, at("subcommand"), programs, name)
    for clause, look in (("flags", _flag), ("options", _flag), ("attributes", _attribute)):
        value = getattr(match, clause)
        for name in value if clause != "flags" and value else _names(value):
            yield from look(at(clause), programs, name)
    for name in (n for n in _names(match.paths) if not _is_list(n)):
        yield from _path(subject, at("paths"), name)
    for name in (n for n in _names(match.hosts) if not _is_list(n)):
        yield from _host(at("hosts"), name)
    for name in (n for n in (match.env.any or () if match.env is not None else ()) if not _is_list(n)):
        yield from _variable(at("env"), name)
    for name in (n for n in (match.env.value_in or () if match.env is not None else ()) if not _is_list(n)):
        yield from _path(subject, at("env"), name)
    for key in ("any", "all"):
        for n, inner in enumerate(getattr(match, key) or ()):
            yield from _in_match(subject, part, inner, (*path, key, n), programs)
    if match.negated is not None:
        yield from _in_match(subject, part, match.negated, (*path, "not"), programs)
    if match.flow is not None:
        yield from _in_match(subject, part, match.flow.source, (*path, "flow", "from"), ())
        if match.flow.to is not None:
            yield from _in_match(subject, part, match.flow.to, (*path, "flow", "to"), programs)


def _in_lists(subject: Subject) -> Iterator[Finding]:
    """Entries of lists, judged by what the rules take the list for."""
    for scope, file in enumerate(subject.files):
        taken = _taken_for(subject, scope)
        for name, value in (file.document.data.get("lists") or {}).items() if file.linted else ():
            inner = ("add",) if isinstance(value, dict) else ()
            entries = value["add"] if isinstance(value, dict) else value
            for n, entry in enumerate([entries] if isinstance(entries, str) else entries):
                if not _is_list(entry):
                    place = file.place(("lists", name, *inner, n))
                    for dead in _entry(subject, place, entry, taken.get(name, "")):
                        yield Finding(dead.place, f"${name}", dead.message, subject.case(dead.command).witness)


def _taken_for(subject: Subject, scope: int) -> dict[str, str]:
    """What the lists of a file hold, by where rules name them: paths, hosts or env."""
    found: dict[str, str] = {}
    for rule in subject.policy.rules:
        for match in (rule.when, rule.unless):
            for inner in _within(match) if match is not None else ():
                for clause, names in (("paths", _names(inner.paths)), ("hosts", _names(inner.hosts)), *_of_env(inner)):
                    for name in names:
                        if _is_list(name) and name[1:] in subject.policy.scopes[scope]:
                            found.setdefault(name[1:], clause)
    return found


def _entry(subject: Subject, place: Place, entry: str, taken: str) -> Iterator[_Dead]:
    if taken == "paths":
        yield from _path(subject, place, entry)
    elif taken == "hosts":
        yield from _host(place, entry)
    elif taken == "env":
        yield from _variable(place, entry)


def _of_env(match: Match) -> list[tuple[str, list[str]]]:
    """What `env` names: variables, and the places that their values lie in."""
    env = match.env
    return [] if env is None else [("env", list(env.any or ())), ("paths", list(env.value_in or ()))]


def _within(match: Match) -> Iterator[Match]:
    yield match
    for inner in sample_commands.inner_of(match):
        yield from _within(inner)


def _names(group: Paths | Among | None) -> list[str]:
    return [name for key in ("any", "all", "none", "only", "contents_of") for name in getattr(group, key, None) or ()]


def _is_list(name: str) -> bool:
    return name.startswith("$") and not name.startswith("${")


# ---- each kind of entry -----------------------------------------------------------------------------------


def _path(subject: Subject, place: Place, text: str) -> Iterator[_Dead]:
    pattern = fill(text, subject.director.variables)
    # What stands before the first wildcard is looked up on the disk, which takes . and .. out of it.
    spellings = [p.components for p in PathSet([text], subject.director.variables).patterns]
    wrong = ""
    if all("." in parts or ".." in parts for parts in spellings):
        wrong = "paths are compared without . and .. in them"
    elif any("**" in part and part != "**" for part in spellings[0]):
        wrong = "** stands for directories only where it is a whole name; within a name it is *"
    elif re.search(r"\[[^/]*\]|\{[^/]*,[^/]*\}", pattern):
        wrong = "only *, ? and ** are wildcards; [ ] and { } stand for themselves: write several patterns"
    if wrong:
        meant = re.sub(r"\[(.)[^/]*?\]|\{([^/,]*),[^/]*?\}", lambda m: m[1] or m[2] or "", pattern).rstrip("/")
        yield _Dead(place, f"the path {text!r}: {wrong}", f"cat {boundary_values.path_in(meant.replace('***', '*'))}")


def _host(place: Place, text: str) -> Iterator[_Dead]:
    host = re.sub(r"^[a-z+]+://|^[^/@]*@|[/].*$", "", text)
    port = host.count(":") == 1
    if host != text or port:
        host = host.partition(":")[0] if port else host
        message = f"the host {text!r}: hosts are compared without scheme, user, port and path: write {host}"
        yield _Dead(place, message, f"curl https://{boundary_values.host_in(host)}/a")


def _variable(place: Place, text: str) -> Iterator[_Dead]:
    if not _VARIABLE.fullmatch(text.removeprefix("!")):
        name = re.sub(r"[^A-Za-z0-9_]", "", text) or "X"
        yield _Dead(place, f"the variable {text!r}: variables are compared by their whole names", f"printenv {name}A")


def _program(subject: Subject, place: Place, name: str) -> Iterator[_Dead]:
    if CATALOG.lookup(name) is not None and " " not in name:
        return
    if "*" in name or " " in name:
        how = "{regex: ...} matches patterns" if "*" in name else "`subcommand` names the second word"
        command = name.replace("*", "3")
        yield _Dead(place, f"the program {name!r}: programs are compared by their whole names; {how}", command)
    elif name.startswith("/") and catalog.STANDARD_DIRECTORIES & {name.rpartition("/")[0]}:
        plain = name.rpartition("/")[2]
        message = f"the program {name!r}: programs in the standard directories go by their names: write {plain}"
        if CATALOG.lookup(plain) is not None:
            yield _Dead(place, message, name)


def _subcommand(subject: Subject, place: Place, programs: Sequence[str], name: str) -> Iterator[_Dead]:
    """A sub-command that the catalog has of none of the programs: a rule can at most be unsure of it."""
    if not programs or not all(CATALOG.lookup(program) for program in programs):
        return
    known = {n for program in programs for n in CATALOG.subcommands(program)}
    first = name.split(" ")[0]
    seen = [p.subcommand for prog in programs for p in subject.case(f"{prog} {name}").program.commands]
    if known and name not in known and first not in known and name not in seen:
        message = f"the sub-command {name!r}: the catalog knows it of none of {', '.join(programs)}"
        yield _Dead(place, message, f"{programs[0]} {name}")


def _attribute(place: Place, programs: Sequence[str], name: str) -> Iterator[_Dead]:
    """An attribute that none of the programs has."""
    specs = [spec for program in programs if (spec := CATALOG.lookup(program)) is not None]
    if specs and len(specs) == len(programs) and not any(_has_attribute(spec, name) for spec in specs):
        message = f"the attribute {name!r}: the catalog knows it of none of {', '.join(programs)}"
        yield _Dead(place, message, f"{programs[0]} --{name} x")


def _has_attribute(spec: catalog.Spec, name: str) -> bool:
    return name in spec.attributes or any(_has_attribute(sub, name) for sub in spec.subcommands.values())


def _flag(place: Place, programs: Sequence[str], name: str) -> Iterator[_Dead]:
    """An option that none of the programs has by that name."""
    specs = [spec for program in programs if (spec := CATALOG.lookup(program)) is not None]
    if len(specs) < len(programs) or not specs:
        if name.startswith("-"):
            message = f"the option {name!r}: options go by their names in the catalog (hla catalog show PROGRAM)"
            yield _Dead(place, message, f"{programs[0] if programs else 'ls'} {name}")
        return
    if any(_has_option(program, name) for program in programs):
        return
    spelling = name if name.startswith("-") else (f"-{name}" if len(name) == 1 else f"--{name}")
    program, canonical = next(((p, c) for p in programs if (c := _canonical(p, spelling))), (programs[0], ""))
    hint = f": write {canonical}" if canonical else f"; hla catalog show {program} lists those that there are"
    message = f"the option {name!r}: none of {', '.join(programs)} has one that the catalog calls so{hint}"
    yield _Dead(place, message, f"{program} {spelling} a" if canonical else f"{program} a")


def _has_option(program: str, name: str) -> bool:
    return any(
        option.name == name for spec in _specs(program) for option in (*spec.short.values(), *spec.long.values())
    )


def _canonical(program: str, spelling: str) -> str:
    for spec in _specs(program):
        option = spec.long.get(spelling) or spec.short.get(spelling.removeprefix("-"))
        if option is not None:
            return option.name
    return ""


def _specs(program: str) -> Iterator[catalog.Spec]:
    """The program's own, and those of its sub-commands."""
    open_specs = [CATALOG.lookup(program), *(CATALOG.lookup(f"{program} {n}") for n in CATALOG.subcommands(program))]
    while open_specs:
        spec = open_specs.pop()
        if spec is not None:
            yield spec
            open_specs += spec.subcommands.values()


CHECK = Check(
    "never-matches", "error", "A condition names what no command can have, or in a form that is not read.", check
)
