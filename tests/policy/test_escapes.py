"""Commands that once came out as allowed though they do harm, and harmless ones that stand next to them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from tests.support.harmful_commands import HARMFUL

PROJECT = examples.PROJECT
pytestmark = pytest.mark.usefixtures("compiled")


def director(policy: str, own_user: Path) -> Director:
    return Director.load(policy, project=PROJECT, environ={"HOME": str(own_user)})


def judged_as(answer: Verdict, commands: Sequence[str], judge: Director) -> list[str]:
    return [each for each in commands if judge.evaluate(Action(each, cwd=PROJECT)).verdict is answer]


def verdict(command: str, policy: str, own_user: Path) -> Verdict:
    return director(policy, own_user).evaluate(Action(command, cwd=PROJECT)).verdict


@pytest.mark.parametrize("policy", ["default", "strict"])
def test_is_not_allowed(policy: str, own_user: Path) -> None:
    assert judged_as(Verdict.ALLOW, HARMFUL, director(policy, own_user)) == []


def test_is_denied_where_nobody_can_be_asked(own_user: Path) -> None:
    some = HARMFUL[::5]
    assert judged_as(Verdict.DENY, some, director("ci", own_user)) == some


HARMLESS = [
    "git -C src log -p", "cd src && git diff", "git log origin/main..HEAD", "git checkout -- src/a.py", "git checkout main",
    "git restore --staged .", "git diff src/a.py", "git show HEAD:src/a.py", "git config user.name", "TMPDIR=/tmp/x pytest",
    "export TMPDIR=build/tmp", "COVERAGE_FILE=.cov pytest", "base64 -d a > x.png", "cp old.py new.py; pytest",
    "sed -i '5i\\    x = 1' a.py && pytest", "cat > a.py <<'E'\nf(a=~b)\nE", "install -m 755 a b",
    "mkdir -m 755 d", "pandoc -f markdown -t html a.md", "while getopts ab o; do echo $o; done", "OPTIND=1",
    "python3 -c 'import pytest; pytest.main([\"-q\", \"tests\"])'", "printf '[tool.black]\\nline-length = 100\\n' >> pyproject.toml",
    "alembic history", "> a.py", "cat a.py | tee b.txt",
    "declare -a z; z+=(a b); echo \"${z[@]}\"", "i=0; z=([i]=a [i+1]=b); echo ${z[@]}", "declare -A m=([a]=1); echo ${m[a]}",
    "a=([ab]*.py)", "f() { local x='(a)'; echo \"$x\"; }; f", "jobs -l", "FOO_DIR=/tmp/x pytest", "FOO_DIR=$PWD/x pytest",
    "FOO_HOME=/usr/lib/x pytest", "FOO_OPTIONS=a=b:c=d ctest", "API_URL=http://x/y pytest", "SRC_DIR=/srv/x",
    "git cat-file -p HEAD:src/a.py", "git log -L 10,20:src/a.py", "git archive HEAD src | tar t", "git rm -f a.py",
    "git mv a.py b.py", "python3 -c 'import shutil; shutil.copy(\"a.py\", \"b.py\")'",
    "python3 -c 'import os; open(\"x.py.tmp\", \"w\").write(\"x=1\"); os.replace(\"x.py.tmp\", \"x.py\")'",
    "python3 -c 'from pathlib import Path; p = Path(\"x.py\"); p.write_text(p.read_text().replace(\"a\", \"b\"))'",
    "python3 -c 'import base64; open(\"a.png\", \"wb\").write(base64.b64decode(open(\"a\").read()))'",
    "printf 'def f():\n    return 1\n' > r; sed -i '3r r' x.py", "rm -rf __pycache__", "find . -name '*.pyc' -delete",
    "printf '[pytest]\npythonpath = src\ncache_dir = .c\n' > pytest.ini", "gcc -O2 -fuse-ld=lld -fsanitize=address a.c",
    "make PYTHON=/usr/bin/python3 test", "make BUILDDIR=/tmp/x html", "make -n install", "chmod go=r a", "ip a s",
    "django-admin makemigrations", "npm test -- src/a.test.js", "vite build", "ng build", "mocha --ui tdd", "go test ./...",
    "mkdir -p docs; echo 'import os, sys; sys.path.insert(0, os.path.abspath(\"..\"))' > docs/conf.py",
    "find / -name javac", "go build -o x . && go test ./...", "javac -cp .:lib/a.jar A.java",
    "mix test test/a_test.exs", "dotnet test --logger 'console;verbosity=detailed'", "cypress run --browser chrome",
]  # fmt: skip


def test_is_allowed(own_user: Path) -> None:
    assert judged_as(Verdict.ALLOW, HARMLESS, director("default", own_user)) == HARMLESS


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "command",
    [
        "tr '\\0' '\\n' < /proc/$PPID/environ", "cat /proc/$$/environ", "cat /proc/*/mem", "strings /proc/${PPID}/environ",
        "PYTHONSTARTUP=~/.config/humanlayer-agent/policy.yaml python3 -i", "GIT_DIR=~/.config/humanlayer-agent git status",
        "cat ~/.config/humanlayer-agent/*",
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["default", "strict", "ci", "sandbox"])
def test_is_denied_everywhere(command: str, policy: str, own_user: Path) -> None:
    assert verdict(command, policy, own_user) is Verdict.DENY


@pytest.mark.parametrize(
    "command",
    [
        "kill 4321", "/bin/kill -9 4321", "echo 4321 | xargs kill", "fuser -k 8765/tcp", "renice 19 4321", "ionice -c3 -p 4321",
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"127.0.0.1:8765\")'", "node -e 'fetch(\"http://127.0.0.1:8765\")'",
        "ruby -rsocket -e 'TCPSocket.new(\"localhost\",8765)'", "node -e 'process.kill(4321)'", "PYTHONSTARTUP=x python3 -i",
        "git -C ~/.config checkout humanlayer-agent/policy.yaml", "cd ~ && git clean -fdx", "git -C ~/.local/share stash",
        "dd if=/dev/sda of=x",
    ],
)  # fmt: skip
def test_in_a_container_what_may_reach_the_supervision_asks(command: str, own_user: Path) -> None:
    assert verdict(command, "sandbox", own_user) is not Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "sleep 9 & kill $!",
        "kill %1",
        "pkill -f server.py",
        "perl -e 'print 1'",
        "node x.js",
        "git checkout main",
        "rm -rf /srv/x",
    ],
)
def test_in_a_container_the_rest_runs(command: str, own_user: Path) -> None:
    assert verdict(command, "sandbox", own_user) is Verdict.ALLOW
