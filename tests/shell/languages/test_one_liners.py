"""One-liners of perl, ruby, php, lua: those that only print, and all others; awk, sed and jq programs in files."""

import posixpath
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.languages import by_name, read
from humanlayer_agent.shell.languages.one_liners import prints_only
from humanlayer_agent.shell.program import Program
from tests.support.rows import for_each


def look(command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = ()) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def effects(program: Program) -> list[str]:
    out = []
    for each in (e for c in program.commands for e in c.effects):
        operand = each.pattern or each.operand or ""
        shown = posixpath.relpath(operand, "/p") if (operand + "/").startswith("/p/") else operand
        out.append("!" * each.unread + "?" * (not each.resolved) + f"{each.kind} {shown}")
    return out


def certain(program: Program) -> bool:
    return program.status == "ok" and all(c.resolved for c in program.commands)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("perl -e 'print 1'", []),
        ("perl -e 'print \"a\\n\"'", []),
        ("perl -le 'print 2**3 + 1' ", None),
        ("perl -pe 's/a/b/' f", ["read f"]),
        ("perl -pe 's/a/b/g; s/c/d/' f g", ["read f", "read g"]),
        ("perl -ne 'print if /x/' f", ["read f"]),
        ("perl -ne 'print unless /^#/' f", ["read f"]),
        ("perl -ne 'print if 3..5' f", ["read f"]),
        ("perl -lane 'print $F[1]' f", ["read f"]),
        ("perl -F: -lane 'print \"$F[0] $F[2]\"' f", ["read f"]),
        ("perl -i -pe 's/a/b/' f", ["write f"]),
        ("perl -pi -e 's|a|b|g' f", ["write f"]),
        ("perl -i.bak -pe 's/a/b/' f", ["write f", "write f.bak"]),
        ("perl -0777 -pe 's/a\\nb/c/g' f", ["read f"]),
        ("perl -pe 's/(\\w+) (\\w+)/$2 $1/' f", ["read f"]),
        ("perl -pe 'tr/a-z/A-Z/' f", ["read f"]),
        ("ls | perl -ne 'print if /x/'", ["read ."]),
        ("ruby -e 'puts 1 + 2'", []),
        ("ruby -e 'puts RUBY_VERSION'", []),
        ("php -r 'echo PHP_VERSION, \"x\\n\";'", []),
        ("lua -e 'print(1 + 1)'", []),
    ],
)
def test_what_only_prints(command: str, expected: list[str] | None) -> None:
    program = look(command)
    if expected is None:
        assert any(e.startswith("!") for e in effects(program))
        return
    assert effects(program) == expected
    assert certain(program)


@for_each(
    "command",
    [
        "perl -e 'system(1)'", "perl -e 'print `ls`'", "perl -pe 's/a/b/e' f", "perl -pe 's/a/b/ee' f", "perl -pe 's/(?{x})//' f",
        "perl -e 'print \"@{[x()]}\"'", "perl -e 'print \"${\\ x()}\"'", "perl -ne 'print $F[x()]' f", "perl -MFoo -e 'print 1'",
        "perl -I. -e 'print 1'", "perl -e 'unlink \"a\"'", "perl -ne 'print if /x/' 'ls|'", "perl -ne 'print if /x/' '|ls'",
        "perl -ne 'print if /x/' '>f'", "perl -ne 'print if /x/' *", "perl -ne 'print if /x/' \"$X\"", "perl -e 'print 1; x()'",
        "perl -e 'require x'", "perl -e 'print <F>'", "perl -e 'print F 1'", "perl -s -e 'print 1'", "perl -x -e 'print 1'",
        "perl -pe 's/a/$x[x()]/' f", "perl -pe 's/$x[x()]/a/' f", "perl -pe \"s/a/$X/\" f", "perl -d -e 'print 1'", "perl -F'x()' -ane 'print 1' f",
        "perl -i*x -pe 's/a/b/' f", "perl -e 'do \"x\"'", "perl -e 'print 1' -e 'x()'", "perl -Mstrict -e 'print 1'", "perl x.pl", "perl -pie 's/a/b/' f",
        "perl -E 'say qx(ls)'", "perl -e 'print 1 for <*>'", "perl -pe 's/\\N{x}//' f", "perl < f", "echo 1 | perl", "perl -e \"$X\"",
        "ruby -e 'puts `ls`'", "ruby -e 'puts \"#{x}\"'", "ruby -r./x -e 'puts 1'", "ruby -e 'puts File.read(1)'", "ruby -ne 'puts 1' f", "ruby -e 'p x'",
        "node -r ./x.js -e 'console.log(1)'", "node -i -e 'console.log(1)'", "node x.js",
        "php -r 'echo $x;'", "php -r 'echo \"{$x}\";'", "php -r 'system(1);'", "php -r 'echo `ls`;'", "php x.php", "php -r 'phpinfo();'",
        "lua -e 'os.remove(1)'", "lua -e 'print(1)' x.lua", "lua -l x -e 'print(1)'", "Rscript -e 'print(1)'", "elixir -e 'IO.puts 1'", "julia -e 'println(1)'",
    ],
)  # fmt: skip
def test_what_nobody_can_read(command: str) -> None:
    program = look(command)
    assert any(e.startswith("!") for e in effects(program)), effects(program)
    assert not certain(program)


def test_what_perl_makes_of_a_text() -> None:
    """The statements above run in perl without an error, and give what they should."""
    perl = shutil.which("perl")
    if perl is None:
        pytest.skip("perl is not installed")
    for option, code, given_text, expected in [
        ("-pe", "s/(\\w+) (\\w+)/$2 $1/", "a b\n", "b a\n"),
        ("-ne", "print if /x/", "a\nx\n", "x\n"),
        ("-lane", 'print "$F[1] $F[0]"', "a b\n", "b a\n"),
        ("-pe", "tr/a-z/A-Z/; s/A$/b/", "aa\n", "Ab\n"),
        ("-e", "print 'a', \"b\\n\", 1 + 2 * 3", "", "ab\n7"),
    ]:
        assert prints_only("perl", "-e", code)
        done = subprocess.run([perl, option, code], input=given_text, capture_output=True, text=True, check=True)
        assert done.stdout == expected


WORDS = [
    "print ",
    "s/a/b/",
    "tr/a/b/",
    " if /x/",
    "'a'",
    '"b"',
    "$_",
    "$1",
    ";",
    "system",
    "`ls`",
    "@{[",
    "(?{x})",
    "/e",
    "[x]",
    "{x}",
    "x()",
    "->",
    "eval ",
    "\n",
]


@given(st.lists(st.sampled_from(WORDS), max_size=8).map("".join))
def test_what_can_call_or_run_is_never_taken_for_printing(text: str) -> None:
    if prints_only("perl", "-e", text):
        outside = re.sub(r"'[^']*'|s/[^/]*/[^/]*/|tr/[^/]*/[^/]*/|/[^/]*/|\"(?:[^\"$@]|\$[_1])*\"", "", text)
        assert set(re.findall(r"[a-z]+", outside)) <= {"print", "if"}
        assert not set("`@{[(>") & set(outside)


@given(st.sampled_from(["perl", "ruby", "php", "lua"]), st.sampled_from(["-e", "-p", "-r"]), st.text(max_size=60))
def test_any_code(program: str, option: str, text: str) -> None:
    assert prints_only(program, option, text) in (True, False)


# ---- programs of awk, sed and jq in files --------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("awk -f x f", "{print $1}", ["execute x", "read f"]),
        ("gawk -f x f", '{print > "/srv/x"}', ["execute x", "read f", "write /srv/x"]),
        ("awk -f x f", 'BEGIN {system("rm y")}', ["execute x", "read f", "delete y"]),
        ("awk -f x f", 'BEGIN {print ENVIRON["A"]}', ["execute x", "read f", "environment A"]),
        ("awk -f x f", "BEGIN {system($1)}", ["execute x", "read f", "!?execute "]),
        ("awk -f x f", "@load x", ["!?execute x", "read f"]),
        ("sed -f x f", "s/a/b/\n# no\n/x/d\n", ["execute x", "read f"]),
        ("sed -n -f x f", "s/a/b/w /srv/x\n", ["execute x", "read f", "write /srv/x"]),
        ("sed -f x f", "r /srv/y\n", ["execute x", "read f", "read /srv/y"]),
        ("sed -f x f", "1e rm x\n", ["!?execute x", "read f"]),
        ("sed -f x f", "s/a/b/e\n", ["!?execute x", "read f"]),
        ("sed -i -f x f", "s/a/b/\n", ["execute x", "write f"]),
        ("jq -f x f", ".a | .b\n", ["execute x", "read f"]),
        ("jq -f x f", "env.HOME", ["!?execute x", "read f"]),
        ("jq -f x f", 'import "a" as a; .', ["!?execute x", "read f"]),
    ],
)
def test_programs_in_files(command: str, text: str, expected: list[str]) -> None:
    assert effects(look(command, {"x": text})) == expected
    assert certain(look(command, {"x": text})) is not any(e.startswith("!") for e in expected)


def test_programs_in_files_of_the_project() -> None:
    assert effects(look("awk -f x f", {"x": "system(1)"}, ("x",))) == ["execute x", "read f"]


@pytest.mark.parametrize(
    "command", ["awk -f x f", "awk -f /dev/stdin f", "sed -f x f", "sed -f /dev/stdin f", "jq -f x f", "awk -f $X f"]
)
def test_programs_that_nobody_can_read(command: str) -> None:
    assert any(e.startswith("!") for e in effects(look(command)))


def test_written_programs_are_judged() -> None:
    assert "write /srv/x" in effects(look("cat > x.awk <<'E'\n{print > \"/srv/x\"}\nE"))
    assert "write /srv/x" in effects(look("echo 'w /srv/x' > x.sed"))


@given(st.sampled_from(["awk", "sed", "jq", "make", "npm", "notebook", "perl", "x"]), st.text(max_size=60))
def test_any_text_in_any_language(language: str, text: str) -> None:
    read(language, text, path="/p/x")


# ---- words in files, and names ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("xargs -a x rm", "a b\n/srv/y\n", ["read x", "delete a", "delete b", "delete /srv/y"]),
        ("xargs -0 -a x rm", "a b\0c\0", ["read x", "delete a b", "delete c"]),
        ("xargs -a x rm", "", ["read x"]),
        ("xargs -a x rm", "'a b'", ["read x", "?delete "]),
        ("xargs -a x -n 1 rm", "a b", ["read x", "delete a", "delete b"]),
        ("xargs -a x -I{} rm {}", "a", ["read x", "delete a"]),
        ("xargs -a x -L 1 rm", "a", ["read x", "?delete "]),
        ("echo a > x; xargs -a x rm", "b", ["write x", "read x", "?delete "]),
        ("xargs -a x rm; date >> x", "b", ["!?read x", "delete b", "append x"]),
    ],
)
def test_words_in_files(command: str, text: str, expected: list[str]) -> None:
    assert effects(look(command, {"x": text})) == expected


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("/p/.git/hooks/pre-commit", "sh"), ("/p/.husky/pre-push", "sh"), ("/p/.githooks/commit-msg", "sh"), ("/p/Makefile", "make"),
        ("/p/Makefile.ci", "make"), ("/p/Makefile.am", None), ("/p/rules.mk", "make"), ("/p/package.json", "npm"), ("/p/conftest.py", "python"),
        ("/p/setup.py", "python"), ("/p/sitecustomize.py", "python"), ("/p/SConstruct", "python"), ("/p/a.ipynb", "notebook"), ("/p/a.awk", "awk"),
        ("/p/a.sed", "sed"), ("/p/a.jq", "jq"), ("/p/.envrc", "bash"), ("/p/configure", "sh"), ("/p/README.md", None), ("/p/a.txt", None),
    ],
)  # fmt: skip
def test_names_that_tell_the_language(path: str, language: str | None) -> None:
    assert by_name(path) == language


def test_what_is_written_to_a_hook_is_judged() -> None:
    for path in (".git/hooks/pre-commit", ".husky/pre-push", ".githooks/pre-commit"):
        assert "delete /srv/x" in effects(look(f"echo 'rm /srv/x' > {path}"))
    for path in ("conftest.py", "setup.py", "sitecustomize.py", "SConstruct"):
        assert "delete /srv/x" in effects(look(f"echo 'import os; os.remove(\"/srv/x\")' > {path}"))
