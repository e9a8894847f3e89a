"""Each transformation keeps what a command does: bash runs harmless probes before and after it, and nothing differs.

Everything that runs is made here. A probe runs in a throw-away directory, twice from the same start; what it prints and
what it leaves on disk must be the same.
"""

import os
import random
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy_tools.metamorphic import options, paths
from humanlayer_agent.policy_tools.metamorphic.all_transformations import rewrite, transformations
from humanlayer_agent.policy_tools.metamorphic.line import Line
from humanlayer_agent.policy_tools.metamorphic.quotes import bare, single
from humanlayer_agent.shell import catalog
from tests.support.extent import SOAK, examples, some
from tests.support.tables import catalog_examples

PROBES_EACH = some(2, here=1, soak=15)
"""How many probes each transformation is held against."""

PROBE = """#!/bin/sh
printf '%s\\0' "$PWD" "$@"
"""

PROBES = [
    # words
    "probe",
    "probe a b",
    "probe a 'b c' \"d'e\" '' '*' '~' -x --y=z é",
    "probe 'a\nb' $'t\tx' 'back\\slash' '$HOME' '`x`' '\"q\"' '!x' '#c' '{a,b}'",
    'probe ~ ~/x "$HOME"/x $HOME *.txt {a,b}',
    "probe a=b 'x y'=z ./a../b a,b a..b - -- -n",
    "probe if then '[' ']' { }",
    "probe -n",
    "curl --request POST --version",
    "probe a > out",
    "probe a 'b c' >> old.txt 2>&1",
    "> out probe 'b c' a",
    "probe 'a b' 2>/dev/null > 'o u t' x",
    "A=b probe x",
    "A='b c' B=~/x probe x > out",
    "probe $(printf '%s ' a b) `echo c` $((1+2)) \"$(echo 'a  b')\"",
    "x='a b'; probe $x \"$x\" ${x%b} ${y:-z}",
    "echo hi",
    "echo 'a  b' > spaced",
    "printf '%s\\n' a 'b c'",
    "cat <<'EOF' > doc\nhello $x 'quoted\nEOF",
    "cat <<EOF > doc\nhello $HOME\nEOF",
    "cat <<< 'a string' > doc",
    "cat a.txt | tr a-z A-Z > up",
    "cat < a.txt",
    "tr a-z A-Z < a.txt >> old.txt",
    "tee -a old.txt < a.txt",
    "xargs rm < names",
    # files
    "rm -rf dir",
    "rm -r -f dir old.txt",
    "rm --recursive --force -- dir old.txt",
    "rm dir/f old.txt -f",
    "rm -f ROOT/srv/f",
    "rm -rf ROOT/srv/d",
    "rm -rf ~/dir",
    "rm ../srv/f",
    "cp a.txt new.txt",
    "cp -r dir ~/copy",
    "cp -t dir a.txt old.txt",
    "mv old.txt dir/",
    "mv -f a.txt b.txt",
    "touch x 'y z' -- -w",
    "touch -r a.txt old.txt",
    "mkdir -p p/q ROOT/srv/e",
    "mkdir -m 700 private",
    "rmdir empty",
    "cat a.txt ROOT/srv/f",
    "head -n 1 old.txt",
    "head -n1 -q old.txt a.txt",
    "tail --lines=1 old.txt",
    "sort -r old.txt -o sorted",
    "sort -t: -k 2 old.txt a.txt",
    "cut -d ' ' -f 2 old.txt",
    "uniq -c old.txt",
    "wc -l < old.txt",
    "grep -i -c LINE old.txt",
    "grep -rhe line dir",
    "sed -i s/line/LINE/ old.txt",
    "chmod -R u+x dir",
    "chmod 600 a.txt",
    "truncate -s 3 old.txt",
    "ln -s a.txt link",
    "dd if=a.txt of=b.txt",
    "find dir -name f -delete",
    "find dir -type f -exec cp {} ROOT/srv \\;",
    "env A=1 touch e",
    "timeout 9 rm a.txt",
    "bash -c 'touch inner'",
    "bash ./script.sh a 'b c'",
    # lists and compound commands
    "touch a1 && rm old.txt || touch never",
    "touch a1; touch a2\ntouch a3",
    "touch a1; touch a2;",
    "(cd dir && rm f)",
    "cd dir && rm f; touch here",
    "if true; then touch y; fi",
    "for i in 1 2; do touch n$i; done > out",
    'f() { touch "$1"; }; f called',
    "x=old.txt; rm $x",
    "! touch z",
    "touch b1 & wait",
    "touch c1 # a comment",
    "# a comment\ntouch c1",
    "[[ -f old.txt ]] && touch t",
    "case a in a) touch k;; esac",
    "{ touch g; rm a.txt; } > out",
    "time touch t",
    'while read -r x; do touch "n-$x"; done < names',
    "touch p1 | touch p2",
    # bash's own
    "cd dir",
    "x=1",
    "export PATH=/x:$PATH A='b c'",
    "[ -f old.txt ]",
    "test a = b",
    "echo a > ROOT/srv/new",
    "printf '%s' x >| a.txt",
    "true",
    "umask 077; touch masked",
]


class World:
    """A directory with a project, a home and something outside of both."""

    def __init__(self, top: Path) -> None:
        self.root, self.start = top / "world", top / "start"
        self.project, self.home = self.root / "project", self.root / "home"
        bin_ = top / "bin"
        for folder in (bin_, self.start / "project" / "dir", self.start / "project" / "empty"):
            folder.mkdir(parents=True)
        for folder in (self.start / "home" / "dir", self.start / "srv" / "d"):
            folder.mkdir(parents=True)
        for name, text in {
            "project/old.txt": "line one\nline two\nline two\n",
            "project/a.txt": "b: a\n",
            "project/dir/f": "a line\n",
            "project/names": "old.txt\n",
            "project/script.sh": "printf '%s\\n' \"$@\" > ran\n",
            "home/dir/g": "",
            "srv/f": "served\n",
            "srv/d/h": "",
        }.items():
            (self.start / name).write_text(text)
            os.utime(self.start / name, (1_000_000_000, 1_000_000_000))
        probe = bin_ / "probe"
        probe.write_text(PROBE)
        probe.chmod(0o755)
        self.environ = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        self._known: dict[tuple[str, catalog.Truth | None], tuple[bytes, dict[str, tuple[object, ...]]]] = {}

    def known(self, command: str, truth: catalog.Truth | None = None) -> tuple[bytes, dict[str, tuple[object, ...]]]:
        """What `run` says, from the first time on: many transformations are held against one command."""
        if (command, truth) not in self._known:
            self._known[command, truth] = self.run(command, truth)
        return self._known[command, truth]

    def run(self, command: str, truth: catalog.Truth | None = None) -> tuple[bytes, dict[str, tuple[object, ...]]]:
        """What a command prints, and what there is afterwards. `truth`: other files in the project than ours."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.start, self.root, symlinks=True)
        if truth is not None:
            self.set_up(truth)
        argv = ["bash", "--norc", "--noprofile", "-c", command]
        done = subprocess.run(
            argv,
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=600,
            check=False,
        )
        return done.stdout, dict(self.left())

    def set_up(self, truth: catalog.Truth) -> None:
        shutil.rmtree(self.project)
        self.project.mkdir()
        for name, text in truth.files:
            path = self.project / name
            (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                path.symlink_to(text[3:])
            elif not name.endswith("/"):
                path.write_text(text)
        if truth.before:
            subprocess.run(
                ["bash", "-c", truth.before], cwd=self.project, env=self.environ, capture_output=True, check=True
            )

    def left(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        for folder, directories, files in os.walk(self.root):
            for name in (*directories, *files):
                path = Path(folder, name)
                mode = path.lstat().st_mode
                content = os.readlink(path) if path.is_symlink() else path.read_bytes() if stat.S_ISREG(mode) else b""
                yield str(path.relative_to(self.root)), (oct(mode), content)

    def rewrite(self, command: str, *names: str, seed: int = 0) -> str | None:
        return rewrite(command, names, seed=seed, cwd=str(self.project), home=str(self.home))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("probes"))


def test_there_are_many() -> None:
    assert len(transformations()) >= 250


def needed(command: str) -> str | None:
    """A program that a rewriting needs, and that may be missing."""
    return next((n for n in ("xxd", "ionice", "flock", "stdbuf", "rev") if n in command and not shutil.which(n)), None)


@pytest.mark.sample(15)
@pytest.mark.parametrize("name", transformations())
def test_behaviour_stays(name: str, world: World) -> None:
    probes = (probe.replace("ROOT", str(world.root)) for probe in random.Random(name).sample(PROBES, len(PROBES)))
    found = ((probe, new) for probe in probes if (new := world.rewrite(probe, name)) is not None)
    # The probe is not installed in /usr/bin, and only a directory may be written with a slash at its end.
    shown = (pair for pair in found if not re.search(r"bin//?probe|\.txt/", pair[1]))
    chosen = list(islice(shown, PROBES_EACH))
    assert chosen, "no probe shows it"
    for probe, new in chosen:
        if (program := needed(new)) is not None:
            pytest.skip(f"{program} is not installed")
        assert world.run(new) == world.known(probe), f"{probe}\n---\n{new}"


# ---- words of any kind ----------------------------------------------------------------------------------

WORDS = st.one_of(
    st.text(alphabet=" \t\n'\"\\$`*?[]{}~#!=,:;&|<>()-+%^@./aAbz019é漢\u00a0", max_size=8),
    st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs")), max_size=6),
    st.sampled_from(
        ["", "-", "--", "-n", "-rf", "a b", "*", "~", "~/x", "$HOME", "x=1", "if", "é", "漢字", "a,b", "{a,b}"]
    ),
)
ABOUT_WORDS = [name for name in transformations() if not name.startswith(("usr-bin", "bin", "dots-to-program"))]


@settings(max_examples=examples(60, soak=600))
@given(
    words=st.lists(WORDS, max_size=5),
    quote=st.sampled_from([bare, single]),
    names=st.lists(st.sampled_from(ABOUT_WORDS), min_size=6, max_size=6),
    seed=st.integers(0, 99),
)
def test_any_words_stay(
    words: list[str], quote: Callable[[str], str], names: list[str], seed: int, world: World
) -> None:
    """Whatever the words are: a program gets the same ones."""
    command = " ".join(["probe", *map(quote, words)])
    expected = b"\0".join([str(world.project).encode(), *(word.encode() for word in words), b""])
    for name in names:
        new = world.rewrite(command, name, seed=seed)
        if new is not None and not needed(new):
            assert world.run(new)[0] == expected, new
            break


@settings(max_examples=examples(60, soak=600))
@given(probe=st.sampled_from(PROBES), names=st.lists(st.sampled_from(ABOUT_WORDS), min_size=8, max_size=8))
def test_compositions_stay(probe: str, names: list[str], world: World) -> None:
    """Up to three transformations, one after the other."""
    command, chain = probe.replace("ROOT", str(world.root)), list[str]()
    for name in names:
        new = rewrite(command, (name,), seed=0, cwd=str(world.project), home=str(world.home))
        if new is not None and len(chain) < 3 and name != "trailing-slashes":
            command, chain = new, [*chain, name]
    if chain and not needed(command):
        assert world.run(command) == world.known(probe.replace("ROOT", str(world.root))), (chain, command)


# ---- programs of the catalog ------------------------------------------------------------------------------

ABOUT_PATHS = [each.name for each in paths.transformations() if each.name not in ("cd-first", "trailing-slashes")]
ABOUT_ARGUMENTS = [*(each.name for each in options.transformations()), *ABOUT_PATHS]
BY_CHANCE = ("shred", "mktemp", "shuf")
TRUTHS = [example for example in catalog_examples() if example.truth is not None]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ABOUT_ARGUMENTS)
def test_programs_of_the_catalog_do_the_same(name: str, world: World) -> None:
    """Options and paths are rewritten as the catalog says: its own examples of what programs do to files must agree."""
    for example in TRUTHS if SOAK else random.Random(name).sample(TRUTHS, len(TRUTHS) // some(4, here=10)):
        new = world.rewrite(example.command, name)
        program = example.command.split()[0]
        if new is None or shutil.which(program) is None or program in BY_CHANCE:
            continue
        assert example.truth is not None
        before, after = world.known(example.command, example.truth), world.run(new, example.truth)
        # Programs print paths as they were given.
        same = after[1] == before[1] if name in ABOUT_PATHS else after == before
        assert same, f"{example.command}\n---\n{new}"


def test_long_names_are_those_of_the_letters() -> None:
    """What `long-options` takes for the same option, the program's own help shows on one line."""
    compared = 0
    for name in CATALOG.names():
        command = Line.read(f"{name} x", cwd="/p", home="/h")
        call = options.read_call(command.commands[0]) if command is not None else None
        if call is None or shutil.which(name) is None or name in ("zgrep", "dirname"):  # help of another program; none
            continue
        run = subprocess.run([name, "--help"], capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False)
        shown = run.stdout.decode(errors="replace")
        for letter, option in call.spec.short.items():
            long = options.lengthened(options.Given(option, f"-{letter}", None), call.spec).name
            if shown and long.startswith("--"):
                compared += 1
                assert re.search(rf"(?m)(^|[\s,])-{re.escape(letter)}\b.*{long}\b", shown), (name, letter, long)
    if not compared:
        pytest.skip("no program of the catalog is installed")
