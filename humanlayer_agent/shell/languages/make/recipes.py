"""The commands that making targets runs, once every line of a Makefile was read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Text
from humanlayer_agent.shell.languages.make.lines import lines
from humanlayer_agent.shell.languages.make.makefile import Reader
from humanlayer_agent.shell.languages.make.rules import Job
from humanlayer_agent.shell.languages.make.variables import MARKER, Texts

MAX_ACTS = 600
_SHELLS = {"sh": "", "/bin/sh": "", "/usr/bin/sh": "", "bash": "bash", "/bin/bash": "bash", "/usr/bin/bash": "bash"}
_SHELL_FLAGS = re.compile(r"-[ecux]+(?: -o pipefail)?(?: -[ecux]+)*")
_MAKE_FLAG = re.compile(
    r"-?[rRskiSw]+|-j|-j?[0-9]+|[0-9]+|--(?:no-print-directory|warn-undefined-variables|no-builtin-rules|silent|quiet"
    r"|no-builtin-variables|jobs(?:=[0-9]+)?|output-sync(?:=\w+)?|keep-going)",
    re.ASCII,
)
_BUILT_IN_PROGRAMS = frozenset(
    str.split(
        """
        CC CXX CPP AR AS LD FC F77 LEX YACC PC CO GET M2C LINT MAKEINFO TEX TEXI2DVI WEAVE CWEAVE TANGLE CTANGLE RM
        COMPILE.c COMPILE.cc COMPILE.cpp COMPILE.C COMPILE.f COMPILE.F COMPILE.S COMPILE.s COMPILE.p COMPILE.mod
        LINK.o LINK.c LINK.cc LINK.cpp LINK.C LINK.f LINK.F LINK.S LINK.s LINK.p PREPROCESS.S PREPROCESS.F LEX.l YACC.y
        """
    )
)
_BUILT_IN_FLAGS = frozenset(
    str.split(
        """
        CFLAGS CXXFLAGS CPPFLAGS FFLAGS ASFLAGS ARFLAGS LDFLAGS LDLIBS LOADLIBES LFLAGS YFLAGS PFLAGS RFLAGS LINTFLAGS
        TARGET_ARCH TARGET_MACH OUTPUT_OPTION GFLAGS COFLAGS
        """
    )
)
"""What make's built-in rules run (GNU make manual 10.3): a Makefile that sets one changes them."""
_INHERITED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "PWD", "TERM"})
"""Variables that are in everybody's environment: what a Makefile makes of them, its shells get."""
_AUTOMATIC = dict.fromkeys("@<^+?*|%", ("x",))
_SIGNS = " \t@+-"


@dataclass(slots=True)
class Made:
    """What making targets does, and the variables that the shells of the recipes get from make.

    `variables`: the texts of each (None: not known), and whether it is certainly in their environment.
    """

    behaviour: Behaviour
    variables: dict[str, tuple[Texts | None, bool]] = field(default_factory=dict)


def run(reader: Reader, goals: Sequence[str] | None, names: Sequence[str]) -> Made:
    """What making `goals` does. `names` are the Makefiles that were read."""
    out, rules = reader.out, reader.rules
    out.line = 0
    _settings(reader)
    bash, apart = _bash(reader), not rules.has(".ONESHELL")
    own = [*names, *reader.included]  # make brings these up to date first
    wanted = None if goals is None else [*(goals or _defaults(reader)), *own]
    for job in rules.jobs(wanted):
        _job(reader, job, bash=bash, apart=apart)
        if len(out.behaviour.acts) > MAX_ACTS:
            rules.too_many = True
            break
    out.line = 0
    _built_in(reader, bash=bash)
    if rules.too_many:
        out.doubt("too many rules")
    return Made(out.behaviour, _environment(reader))


def _value(reader: Reader, name: str) -> list[str]:
    """What a variable that make itself looks at may be."""
    return [text.strip() for text in reader.out.used(reader.variables.expand(f"$({name})"))]


def _defaults(reader: Reader) -> list[str]:
    if ".DEFAULT_GOAL" in reader.variables.defined:
        return [word for text in _value(reader, ".DEFAULT_GOAL") for word in text.split()] or reader.rules.default
    return reader.rules.default


def _settings(reader: Reader) -> None:
    flags = [word for text in _value(reader, "MAKEFLAGS") for word in text.split()]
    if not all(_MAKE_FLAG.fullmatch(word) for word in flags):
        reader.out.doubt("MAKEFLAGS is set")
    if not all(_SHELL_FLAGS.fullmatch(text) for text in _value(reader, ".SHELLFLAGS")):
        reader.out.doubt(".SHELLFLAGS is set")


def _bash(reader: Reader) -> bool:
    """Whether bash runs the recipes, and not sh."""
    found = {_SHELLS.get(text) for text in _value(reader, "SHELL")}
    if None in found:
        reader.out.doubt("another shell for recipes")
    return found == {"bash"}


def _job(reader: Reader, job: Job, *, bash: bool, apart: bool) -> None:
    recipe = job.rule.recipe
    if not apart:
        recipe = [(recipe[0][0], "\n".join(text for _, text in recipe))]
        if job.rule.split:
            reader.out.doubt("conditions within a script of several lines")
    for number, text in recipe:
        reader.out.line = number
        for each in reader.variables.expand(text, job.local):
            # A variable of several lines gives several commands; make removes the signs in front of each.
            commands = [line.command.lstrip(_SIGNS) for line in lines(each)]
            for command in commands if apart else ["\n".join(commands)]:
                reader.out.run(command, f"recipe of {MARKER.sub('?', job.target)}", bash=bash)


def _built_in(reader: Reader, *, bash: bool) -> None:
    """What a Makefile's variables put into make's own rules."""
    for name in sorted(reader.variables.names() & (_BUILT_IN_PROGRAMS | _BUILT_IN_FLAGS)):
        for text in reader.variables.expand(f"$({name})", _AUTOMATIC):
            command = text if name in _BUILT_IN_PROGRAMS else f"cc {text}"
            reader.out.run(command, f"built-in rules: {name}", bash=bash)


def _environment(reader: Reader) -> dict[str, tuple[Texts | None, bool]]:
    """What the shells of the recipes find in their environment."""
    out: dict[str, tuple[Texts | None, bool]] = {}
    variables = reader.variables
    for name in sorted(variables.names()):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII) or name in ("SHELL", "MAKEFLAGS", "CURDIR"):
            continue
        exported = reader.export_all or name in variables.exported or name in variables.given
        inherited = variables.environment(name)
        if exported or name in _INHERITED or (inherited and "\0" not in inherited[0]):
            texts = variables.expand(f"$({name})")
            known = not any("\0" in text for text in texts)
            out[name] = texts if known else None, True
            values = Text.of(*texts) if known else Text()
            act = Act("environment", (Text.of(name), values), "itself", f"make's {name}")
            reader.out.behaviour.acts.append(act)
        elif inherited != ():
            out[name] = None, False
    return out
