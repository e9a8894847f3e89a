"""Makefiles: what making a target runs, judged where nobody but the agent wrote it."""

import posixpath
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.languages import make
from humanlayer_agent.shell.languages.behaviour import Found
from humanlayer_agent.shell.program import Program
from tests.support.extent import examples


def look(
    command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = (), *, closed: bool = True
) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u", "USER": "u"}, closed=closed, reader=reader)


def effects(program: Program) -> list[str]:
    """Every effect, as "kind operand"; "?" in front of what is not certain, "!" of code that nobody read."""
    out = []
    for each in (e for c in program.commands for e in c.effects):
        operand = each.pattern or each.operand or ""
        shown = posixpath.relpath(operand, "/p") if (operand + "/").startswith("/p/") else operand
        out.append("!" * each.unread + "?" * (not each.resolved) + f"{each.kind} {shown}")
    return out


def certain(program: Program) -> bool:
    return program.status == "ok" and all(c.resolved for c in program.commands)


def made(text: str, command: str = "make", **files: str) -> list[str]:
    """What `command` does with a Makefile that is not tracked, without the run of the Makefile itself."""
    program = look(command, {"Makefile": text, **files})
    return [e for e in effects(program) if e not in ("execute Makefile", "?execute Makefile")]


HARM = "all:\n\trm -rf /srv/x\n"


# ---- which Makefile is judged -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "files", "tracked", "expected"),
    [
        ("make", {"Makefile": HARM}, (), ["execute Makefile", "delete /srv/x"]),
        ("make all", {"makefile": HARM}, (), ["execute makefile", "delete /srv/x"]),
        ("gmake", {"GNUmakefile": HARM}, (), ["execute GNUmakefile", "delete /srv/x"]),
        ("make", {"Makefile": HARM}, ("Makefile",), ["execute ."]),
        ("make", {}, (), ["execute ."]),
        ("make", {}, ("Makefile",), ["execute ."]),
        ("make -C sub", {"sub/Makefile": HARM}, (), ["execute sub/Makefile", "delete /srv/x"]),
        ("cd sub && make", {"sub/Makefile": HARM}, (), ["execute sub/Makefile", "delete /srv/x"]),
        ("make -f x", {"x": HARM, "Makefile": "all:\n"}, (), ["execute x", "delete /srv/x"]),
        ("make -fx", {"x": HARM}, ("x",), ["execute x"]),
        ("make -f gone", {}, (), ["!?execute gone"]),
        ("make -f a -f b", {"a": "X = /srv/x\n", "b": "all:\n\trm $(X)\n"}, (), ["execute a", "execute b", "delete /srv/x"]),
        (f"make -f - <<'E'\n{HARM}E", {}, (), ["delete /srv/x"]),
        ("ls | make -f -", {}, (), ["read .", "!?execute "]),
        ("make", {"Makefile": "all:\n\techo hi\n", "GNUmakefile": HARM}, ("Makefile",),
         ["execute GNUmakefile", "execute Makefile", "delete /srv/x"]),
        ("make", {"Makefile": "x" * 300_000}, (), ["!?execute Makefile"]),
        ("make", {"Makefile": "include x\nall:\n", "x": "all:\n\trm /srv/x\n"}, ("Makefile",),
         ["execute Makefile", "delete /srv/x"]),
        ("make", {"Makefile": "include x\nall:\n", "x": "all:\n\trm /srv/x\n"}, ("Makefile", "x"), ["execute ."]),
        ("make --version", {"Makefile": HARM}, (), []),
    ],
)  # fmt: skip
def test_which_makefile(command: str, files: dict[str, str], tracked: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(effects(look(command, files, tracked))) == sorted(expected)


def test_without_a_reader_make_runs_the_project() -> None:
    program = analyse("make test", cwd="/p")
    assert effects(program) == ["execute ."]
    assert certain(program)


@pytest.mark.parametrize(
    "command",
    [
        f"printf '{HARM}' > Makefile", f"cat > Makefile <<'E'\n{HARM}E", f"cat > sub/GNUmakefile <<'E'\n{HARM}E",
        f"cat > x.mk <<'E'\n{HARM}E", f"printf '{HARM}' > Makefile; make test", f"make; printf '{HARM}' > Makefile",
        "printf '\\nall: y\\ny:\\n\\trm -rf /srv/x\\n' >> Makefile",
    ],
)  # fmt: skip
def test_what_is_written_is_judged(command: str) -> None:
    assert "delete /srv/x" in effects(look(command.replace("\n\t", "\\n\\t") if "printf" in command else command))


@pytest.mark.parametrize(
    "command",
    [
        "sed -i /a/d Makefile; make", "make; cp x Makefile", "date > GNUmakefile; make", "tar xf x.tar; make",
        "cp -r ../other . ; make", "mv x makefile && make", "curl -o Makefile http://example.org/; make",
        "printf 'all:\\n\\t' > m; cat notes >> m; make -f m", "echo 'include n' > m; touch n; cat notes >> n; make -f m",
        "cat notes >> Makefile; make -f Makefile",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tracked", [("Makefile",), ()])
def test_what_the_action_makes_of_it_is_not_known(command: str, tracked: tuple[str, ...]) -> None:
    program = look(command, {"Makefile": "all:\n\techo hi\n"}, tracked)
    assert any(e.startswith("!?execute") for e in effects(program)), effects(program)
    assert not certain(program)


# ---- which recipes run ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("a:\n\trm a1\nb:\n\trm b1\n", "make", ["delete a1"]),
        ("a:\n\trm a1\nb:\n\trm b1\n", "make b", ["delete b1"]),
        ("a:\n\trm a1\nb:\n\trm b1\n", "make b a", ["delete a1", "delete b1"]),
        ("a: b\n\trm a1\nb: c\nc:\n\trm c1\nd:\n\trm d1\n", "make", ["delete a1", "delete c1"]),
        ("a: | b\nb:\n\trm b1\n", "make", ["delete b1"]),
        ("a:: ; rm a1\na:: b ; rm a2\nb: ; rm b1\n", "make", ["delete a1", "delete a2", "delete b1"]),
        (".PHONY: a\na:\n\trm a1\n", "make", ["delete a1"]),
        (".DEFAULT_GOAL := b\na:\n\trm a1\nb:\n\trm b1\n", "make", ["delete b1"]),
        ("%.o: %.c\n\trm $< $*\nx: a.o\n", "make", ["delete a", "delete a.c"]),
        ("x: a.o\n\ttouch $@\n.c.o:\n\trm $<\n", "make a.o", ["delete a.c"]),
        ("a.o b.o: %.o: %.c\n\trm $<\n", "make b.o", ["delete b.c"]),
        ("%:\n\trm all-$@\n", "make x", ["delete all-Makefile", "delete all-x"]),
        ("ifdef X\na:\n\trm a1\nelse\nb:\n\trm b1\nendif\n", "make", ["delete a1", "delete b1"]),
        ("a:\nifeq ($(X),1)\n\trm a1\nelse\n\trm a2\nendif\n", "make", ["delete a1", "delete a2"]),
        ("a:\n\t@-+ rm a1 \\\n\t  a2\n", "make", ["delete a1", "delete a2"]),
        ("a: b \\\n c\nb c:\n\trm $@\n", "make", ["delete b", "delete c"]),
        ("a:\n\n# no\n\trm a1 # yes\n", "make", ["delete a1"]),
        ("# all: \\\n\trm no\na:\n\trm a1\n", "make", ["delete a1"]),
        (".ONESHELL:\na:\n\tcd sub\n\t@rm a1\n", "make", ["delete a1", "delete sub/a1"]),
        ("a:\n\tcd sub\n\trm a1\n", "make", ["delete a1"]),
        ("SHELL := /bin/bash\na:\n\t[[ -n x ]] && rm a1\n", "make", ["delete a1"]),
        ("Makefile:\n\trm m1\na:\n\trm a1\n", "make a", ["delete a1", "delete m1"]),
        (".DEFAULT:\n\trm d1\na:\n", "make z", ["delete d1"]),
        ("a:\n\t$(MAKE) -C sub X=1\n", "make", ["execute sub"]),
        ("a b &: c\n\trm g\n", "make b", ["delete g"]),
        ("./a:\n\trm a1\n", "make a", ["delete a1"]),
        ("a:; rm a1; rm a2\n\trm a3\n", "make", ["delete a1", "delete a2", "delete a3"]),
    ],
)  # fmt: skip
def test_which_recipes(text: str, command: str, expected: list[str]) -> None:
    assert sorted(set(made(text, command))) == expected


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("X = /srv\na:\n\trm $(X)/a $X\n", "make", ["delete /srv", "delete /srv/a"]),
        ("a:\n\trm $(X)\nX = b\n", "make", ["delete b"]),
        ("Y = a\nX := $(Y)\nY = b\na:\n\trm $(X) $(Y)\n", "make", ["delete a", "delete b"]),
        ("X = a\nX += b\na:\n\trm $(X)\n", "make", ["delete a", "delete b"]),
        ("X ?= a\na:\n\trm $(X)\n", "make", ["delete a"]),
        ("X = a\na:\n\trm $(X)\n", "make X=b", ["delete b"]),
        ("X = a\na:\n\trm $(X)\n", "X=b make", ["delete a"]),
        ("X ?= a\na:\n\trm $(X)\n", "X=b make", ["delete b"]),
        ("a:\n\trm $(X)\n", "X=b make", ["delete b"]),
        ("override X = a\na:\n\trm $(X)\n", "make X=b", ["delete a"]),
        ("override X = a\nX = b\nundefine X\na:\n\trm $(X)\n", "make", ["delete a"]),
        ("X = a b\na:\n\trm $(X:%=%.o) $(X:a=c)\n", "make", ["delete a.o", "delete b", "delete b.o", "delete c"]),
        ("X = s/a.c b.c\na:\n\trm $(notdir $(patsubst %.c,%.o,$(X)))\n", "make", ["delete a.o", "delete b.o"]),
        ("X = a,b\nc := ,\na:\n\trm $(subst $(c),/,$(X))\n", "make", ["delete a/b"]),
        ("a: b c\n\trm $@ $< $^ $(@D)/x\nb c:\n", "make", ["delete a", "delete b", "delete c", "delete x"]),
        ("define X\nrm a1\nrm $(1)\nendef\na:\n\t@$(call X,a2)\n", "make", ["delete a1", "delete a2"]),
        ("a: X = b\nX = c\na:\n\trm $(X)\n", "make", ["delete b", "delete c"]),
        ("a:\n\trm $$HOME/a '$$b'\n", "make", ["delete $b", "delete /home/u/a"]),
        ("export X = a\na:\n\trm $$X\n", "make", ["delete a"]),
        ("a:\n\trm $$X\n", "make X=b", ["delete b"]),
        ("HOME = /srv\na:\n\trm $$HOME/a\n", "make", ["delete /srv/a", "environment HOME"]),
        ("export LD_PRELOAD = ./x.so\na:\n", "make", ["environment LD_PRELOAD"]),
        ("include x.mk\na:\n\trm $(X)\n", "make", ["delete b"]),
        ("-include gone.mk\na:\n\trm b\n", "make", ["delete b"]),
        ("$(X)Y = b\nX = Z\na:\n\trm $(Y)\n", "make", ["delete b"]),
        ("X = $(foreach n,1 2,a$(n))\na:\n\trm $(X)\n", "make", ["delete a1", "delete a2"]),
        ("X = $(if $(Y),b,c)\na:\n\trm $(X)\n", "make", ["delete c"]),
        ("a:\n\trm $(CURDIR)/x $(abspath ../y)\n", "make", ["delete /y", "delete x"]),
        ("X := $(shell pwd)\na:\n\trm $(X)/b\n", "make", ["delete b"]),
        ("ifeq ($(shell rm s),)\nendif\na:\n", "make", ["delete s"]),
        ("X != rm s\na:\n", "make", ["delete s"]),
        ("X = $(shell rm s)\na:\n", "make", []),
        ("X = $(shell rm s)\na:\n\techo $(X)\n", "make", ["?execute line 3: $(shell rm s)", "delete s"]),
        ("CC = ./cc1\na: a.o\n", "make", ["!?execute cc1"]),
        ("CFLAGS = ; rm b;\na: a.o\n", "make", ["delete b"]),
        ("MAKE = rm b; true\na:\n\t$(MAKE)\n", "make", ["delete b"]),
        ("a:\n\techo $(info hi) $(warning no) > b\n", "make", ["write b"]),
    ],
)  # fmt: skip
def test_variables(text: str, command: str, expected: list[str]) -> None:
    program = look(command, {"Makefile": text, "x.mk": "X = b\n"})
    assert sorted({e for e in effects(program) if e != "execute Makefile"}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a:\n\techo $(wildcard *.c)\n", "a:\n\techo $(shell cat x)\n", "a:\n\techo $(eval b: ; rm x)\n",
        "$(eval $(call f,x))\na:\n", "include gone.mk\na:\n", "include *.mk\na:\n", "include $(shell cat x)\na:\n",
        "SHELL = ./sh\na:\n\techo hi\n", "SHELL = python3\na:\n\tprint(1)\n", ".SHELLFLAGS = x\na:\n", "load x.so\na:\n",
        ".RECIPEPREFIX = >\na:\n> echo hi\n", ".SECONDEXPANSION:\na: $$(b)\n", "MAKEFLAGS += --eval=x\na:\n",
        "a: SHELL = ./sh\na:\n\techo hi\n", "a: $(wildcard *.c)\n\techo $^\n", "VPATH = src\na: b\n\techo $<\n",
        "a\n", "a b = c\n", "a:\n b\n", "X = $(X)\na:\n\techo $(X)\n", "a\\:b:\n\techo hi\na:\n", "l(a b):\na:\n",
        "define X\nrm b\n", "a: b\n\techo $?\n", "$(file >x,y)\na:\n", "a:\n\techo $(guile (x))\n", "a: x.c\n%.c: *.d\n\techo $^\n",
        "\trm b\na:\n", "a:\u00a0b\n", "%.mk: x\n\techo hi > $@\n-include d.mk\na:\n", "X := $(shell echo '#')\na:\n\techo $(X)\n",
        "ifdef X\n.ONESHELL:\nendif\na:\nifdef X\n\tcat <<E\nendif\n\techo hi\nE\n", "a:\n\t$(X) $(shell cat y)\n",
    ],
)  # fmt: skip
def test_what_can_not_be_told_is_a_doubt(text: str) -> None:
    assert not certain(look("make", {"Makefile": text})), effects(look("make", {"Makefile": text}))


@pytest.mark.parametrize(
    "text",
    [
        "a:\n\techo hi\n", "X = $(wildcard *.c)\na:\n\techo hi\n", "VERSION := $(shell git describe)\na:\n\tpytest -q\n",
        "PYTHON ?= python3\na:\n\t$(PYTHON) -m pytest $(ARGS)\n", ".PHONY: a b\na: b\n\tgit status\nb:\n\tls\n",
        "OS := $(shell uname -s)\na:\n\techo $(OS)\n", "clean:\n\trm -rf build *.o\n", "a:\n\t@for i in 1 2; do echo $$i; done\n",
        "MAKEFLAGS += --no-print-directory -j4\na:\n\techo hi\n", "-include .env.mk\na:\n\techo hi\n",
        "SHELL := /bin/bash\n.SHELLFLAGS := -eu -o pipefail -c\na:\n\techo hi\n", "CC = gcc\nCFLAGS = -Wall -O2\na: a.o\n\t$(CC) -o $@ $<\n",
    ],
)  # fmt: skip
def test_harmless_makefiles_are_certain(text: str) -> None:
    program = look("make", {"Makefile": text})
    assert certain(program), [c.unresolved for c in program.commands]


def test_sphinx() -> None:
    text = (
        'SPHINXOPTS ?=\nSPHINXBUILD ?= sphinx-build\nhelp:\n\t@$(SPHINXBUILD) -M help "." "_build" $(SPHINXOPTS) $(O)\n\n'
        '.PHONY: help Makefile\n\n%: Makefile\n\t@$(SPHINXBUILD) -M $@ "." "_build" $(SPHINXOPTS) $(O)\n'
    )
    program = look("make html", {"Makefile": text})
    assert [c.argv for c in program.commands][1:] == [["sphinx-build", "-M", "html", ".", "_build"]]


def test_a_variable_that_only_the_environment_knows() -> None:
    """It stays a variable for the shell, where the shell would read it as make does."""
    program = look("make", {"Makefile": "a:\n\trm $(X)\n"}, closed=False)
    assert "?delete " in effects(program)
    assert not certain(look("make", {"Makefile": "a:\n\trm '$(X)'\n"}, closed=False))
    assert certain(look("make", {"Makefile": "X ?= a\na:\n\trm $(X)\n"}, closed=False))


def test_a_variable_that_the_action_sets_to_anything() -> None:
    assert not certain(look("export X=$(cat y); make", {"Makefile": "a:\n\techo $(X)\n"}))
    assert effects(look("X=ls; make", {"Makefile": "a:\n\t$(X) rm b\n"}))[-1] == "delete b"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("make X='a; b'", ["?execute a; b", "execute ."]),
        ("make SHELL=./x", ["?execute ./x", "execute ."]),
        ("make 'X!=./x'", ["?execute ./x", "execute ."]),
        ("make CC=./x", ["?execute ./x", "execute ."]),
        ("make CC=/usr/bin/gcc CFLAGS=-O2", ["execute ."]),
        ("make LD_PRELOAD=./x", ["environment LD_PRELOAD", "execute ."]),
        ("X='rm -rf /srv/x;' make", ["execute .", "?execute X"]),
        ("X=1 make", ["execute ."]),
    ],
)
def test_variables_for_a_makefile_of_the_project(command: str, expected: list[str]) -> None:
    assert sorted(effects(look(command, tracked=("Makefile",)))) == sorted(expected)


def test_variables_reach_the_make_that_a_recipe_runs() -> None:
    files = {"Makefile": "a:\n\t$(MAKE) -C sub\n", "sub/Makefile": "X = b\na:\n\trm $(X)\n"}
    assert "delete sub/c" in effects(look("make X=c", files))


def test_make_in_circles_ends() -> None:
    assert "delete b" in effects(look("make", {"Makefile": "a:\n\trm b\n\t$(MAKE) a\n\t$(MAKE) c\nc: a\n"}))
    program = look("make", {"Makefile": "X = 1\na:\n\t$(MAKE) X=$(X)1\n"})
    assert not certain(program)


def test_at_most_sixteen_makefiles() -> None:
    files = {f"{n}/Makefile": f"a:\n\tmake -C ../{n + 1}\n" for n in range(30)}
    assert not certain(look("make -C 0", files))


# ---- any text ---------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "a", "b", ":", "::", " ", "\t", "\n", "\n\t", "=", ":=", "+=", "?=", "$(X)", "${a}", "$@", "$<", "$$", "#", "\\", "\\\n",
        "include ", "define ", "endef", "ifdef ", "else", "endif", "export ", "%", ";", "|", ",", "(", ")", "$(", "${", "$(call ",
        "$(foreach ", "$(shell ", "$(if ", "X", "\0", "$(subst a,b,", ".PHONY", ".ONESHELL", "&", "\r", "é",
    ]
)  # fmt: skip


@example("$(if a)a")
@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_text(text: str) -> None:
    result = make.read([("Makefile", (text,))], goals=("a",), files=lambda path: Found((text,)), directory="/p")
    assert isinstance(result.behaviour.acts, list)
    make.whole(text, None, None)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "text",
    [
        "a: b\n" * 60_000, "\\\n" * 100_000, " " * 200_000 + "\\\n" + " " * 50_000, "$(" * 100_000, "$a" * 100_000, "\\#" * 100_000,
        "X = $(X)$(X)\n" + "X += a\n" * 30_000, "".join(f"X{n + 1} = $(X{n})$(X{n})\n" for n in range(4_000)) + "a:\n\t$(X4000)\n",
        "%: %.a\n%.a: %.b\n%.b: %\n" * 500, "a " * 100_000 + ":\n", "a:\n" + "\techo a\n" * 20_000,
        "X = $(subst a,aaaaaaaaaaaaaaaa,$(X1))\nX1 = $(subst a,aaaaaaaaaaaaaaaa,aaaaaaaaaaaaaaaa)\na:\n\t$(subst a,$(X),$(X))\n",
        "a:\n" + "".join(f"\t$(foreach x,{'a ' * 60},$(foreach y,{'b ' * 60},$(x)$(y)))\n" for _ in range(50)),
    ],
)  # fmt: skip
def test_the_work_is_bounded(text: str) -> None:
    result = make.read([("Makefile", (text,))], goals=(), directory="/p")
    assert len(result.behaviour.acts) < 2_000


def test_a_variable_is_expanded_once_in_a_text() -> None:
    text = "V0=\n" + "".join(f"V{n + 1}=$(V{n})$(V{n})\n" for n in range(30)) + "a:\n\trm x$(V30)\n"
    behaviour = make.read([("Makefile", (text,))], goals=("a",), directory="/p").behaviour
    assert [act.operands[0].choices for act in behaviour.acts] == [("rm x",)]
    assert behaviour.steps < 1_000


def test_no_more_references_are_followed_than_may_be() -> None:
    text = "V=b\na:\n" + "\trm $(V)\n" * 50
    within, beyond = (make.read([("Makefile", (text,))], goals=("a",), directory="/p", steps=n) for n in (200, 20))
    assert not within.behaviour.doubts
    assert beyond.behaviour.doubts
    assert beyond.behaviour.steps == 20


# ---- against make itself ----------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d.o", "e.o", "./b", "s/f.o"])
WORDS = st.sampled_from(
    [
        "one", "two", "$(X)", "$(Y)", "$(Z)", "$@", "$<", "$^", "$*", "$+", "$|", "$(@D)", "$(<F)", "$(X:e=f)", "$(notdir s/$(Y))",
        "$$W", "$(call F,q)", "$(if $(X),y,n)", "$(foreach i,1 2,$(i)$(X))", "$($(Y))", "$(filter v%,$(X))", "$(or $(Z),z)",
        "$(and $(X),$(Y))", "$(sort $(X) $(Y))", "$(word 2,$(X) $(Y))", "$(join a b,$(X))", "\\\n\tmore", "$(strip  $(X) )",
        "$(patsubst %u,%,$(Y))", "$(dir $^)", "$(suffix $@)", "$(basename $^)", "$(lastword $(X) $(Y))", "$(addsuffix .x,$(X))",
    ]
)  # fmt: skip
VALUES = st.sampled_from(["v", "v w", "$(Y)u", "", "$(X) t", "$(addprefix p/,$(Z))", "Z", "a\\\n  b", "v # no", "$$Q"])
OPERATORS = st.sampled_from(["=", ":=", "+=", "?=", "::="])
RECIPES = st.lists(st.lists(WORDS, max_size=3), max_size=2)


def rule(targets: list[str], colon: str, needs: list[str], order: list[str], recipe: list[list[str]]) -> str:
    after = f" | {' '.join(order)}" if order else ""
    lines = "".join(f"\t@echo {' '.join(words)}\n" for words in recipe)
    return f"{' '.join(targets)}{colon} {' '.join(needs)}{after}\n{lines}"


STATEMENT = st.one_of(
    st.builds(lambda w, n, o, v: f"{w}{n} {o} {v}\n", st.sampled_from(["", "", "override ", "export "]), st.sampled_from("XYZ"), OPERATORS, VALUES),
    st.builds(rule, st.lists(NAMES, min_size=1, max_size=2, unique=True), st.sampled_from([":", ":", "::"]), st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=1), RECIPES),
    st.builds(lambda w: f"%.o: %.c\n\techo pattern {w}\n", WORDS),
    st.builds(lambda w: f"d.o e.o: %.o: %.c\n\techo static {w}\n", WORDS),
    st.builds(lambda w: f"define F\necho called $(1)\n@echo {w}\nendef\n", VALUES),
    st.just("a:\n\t$(F)\n\t$(call F,r)\n"),
    st.builds(lambda a, b: f"ifeq ($(X),{a})\nY = {b}\nelse\nZ = {b}\nendif\n", st.sampled_from(["", "v"]), VALUES),
    st.builds(lambda a, r: f"ifdef {a}\n{r}endif\n", st.sampled_from("XYZ"), st.builds(rule, st.lists(NAMES, min_size=1, max_size=1), st.just(":"), st.lists(NAMES, max_size=1), st.just([]), RECIPES)),
    st.builds(lambda t, n, o, w: f"{t}: {n} {o} {w}\n", NAMES, st.sampled_from("XYZ"), OPERATORS, VALUES),
    st.builds(lambda n: f"undefine {n}\n", st.sampled_from("XYZ")),
    st.builds(lambda n: f".PHONY: {n}\n", NAMES), st.builds(lambda n: f".DEFAULT_GOAL := {n}\n", NAMES),
)  # fmt: skip


@given(st.lists(STATEMENT, max_size=8).map("".join), st.sampled_from(["", "a", "d.o", "b X=g", "s/f.o", "c a Y=h"]))
@settings(max_examples=examples(150))
def test_what_make_would_run_is_among_what_was_read(text: str, words: str) -> None:
    """`make -n` prints the commands without running them; each must have been seen, or the reading be in doubt."""
    program = shutil.which("make")
    if program is None:
        pytest.skip("make is not installed")
    given_words = words.split()
    done = subprocess.run(
        [program, "-n", "-B", "-k", "--no-print-directory", "-f", "-", *given_words], input=text, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, cwd=Path("/"), timeout=600, check=False,
    )  # fmt: skip
    goals = tuple(w for w in given_words if "=" not in w)
    variables = dict(w.split("=", 1) for w in given_words if "=" in w)
    result = make.read([("Makefile", (text,))], goals=goals, given=variables, directory="/")
    seen = {choice.strip() for act in result.behaviour.acts for operand in act.operands for choice in operand.choices}
    if result.behaviour.doubts:
        return
    for line in re.findall(r"^echo(?:[^\n\\]|\\.)*", done.stdout, re.MULTILINE | re.DOTALL):
        assert line.strip() in seen, (line, seen)
