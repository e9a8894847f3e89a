"""Searches in files that a pattern names: what is looked for by its name is read."""

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director


@pytest.fixture(scope="module")
def director() -> Director:
    return Director.load("default", project="/srv/app", environ={"HOME": "/home/u"})


@pytest.mark.parametrize(
    "command",
    [
        "grep -rh '' --include='.env' .",
        "grep -rh '' --include=.e* .",
        "grep -r x --inc='.env'",
        "grep -r x --include '[.]env' src",
        "grep -r x --include='*env'",
        "grep -r x --include='?env'",
        "grep -r x --include='*.???'",
        "grep -r x --include='.{env,x}'",
        "grep -r x --include='\\.env'",
        "grep -r x --include='*.pem'",
        "grep -r x --include='*.py' --include=id_rsa",
        'X=.env; grep -r x --include="$X"',
        'grep -r x --include "$X"',
        "bash -c \"grep -r x --include='.env'\"",
        "rg -g '.env*' ''",
        "rg -g'**/.env' ''",
        "rg --glob=/.env ''",
        "rg --iglob .ENV ''",
        "rg -g '.aws/**' x",
        "rg -g '!*.lock' -g '*.{py,key}' x",
        "rg --type-add 'x:.env' -t x ''",
        "ag -G '\\.env$' x",
        "ag -G 'en' x",
        "git grep --no-index x -- '*env'",
        "git grep --untracked x -- ':(glob)**/.env'",
        "tar xOf x.tgz ./.env",
        "unzip -p x.zip config/.env",
    ],
)
def test_a_pattern_that_matches_secrets(director: Director, command: str) -> None:
    assert director.evaluate(Action(command, cwd="/srv/app")).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn X .",
        "grep -rn X . --include='*'",
        "grep -rn X --include='*.py' src",
        "grep -rn X . --include=*.go --include=*.{ts,tsx}",
        "grep -rn X . --include='*.json' --include='*.yml'",
        "grep -rn X . --exclude='*.lock' --exclude-dir=.git",
        'e=py; grep -rn X --include="*.$e" .',
        "rg -g '*.{ts,tsx}' X",
        "rg -g 'src/**/*.ts' X",
        "rg -g 'src/**' X",
        "rg -g '!.env' X",
        "rg --hidden -uu X",
        "rg --type-add 'web:*.{html,css}' -t web X",
        "ag -G '\\.(js|ts)$' X",
        "git grep -n X -- '*.py'",
        "git grep --no-index X -- '*.py' src",
        "tar xOf x.tgz ./README.md",
    ],
)
def test_a_search_that_names_none(director: Director, command: str) -> None:
    assert director.evaluate(Action(command, cwd="/srv/app")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    ["make -p", "make -qp all", "make -rpn | grep TOKEN", "gmake --print-data-base", "strace -v ls", "mvn help:system"],
)
def test_what_prints_the_environment(director: Director, command: str) -> None:
    assert director.evaluate(Action(command, cwd="/srv/app")).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    [
        "find / -name javac",
        "find / -iname 'JDK*' -type d 2>/dev/null",
        "find ~ /opt -maxdepth 4 -name pom.xml",
        "find / \\( -name javac -o -name 'java*' \\) -type f",
        "find / -type d -name jvm -prune -o -name 'libjvm.so' -print",
        "find / -name '*.jar' | head",
    ],
)
def test_looking_for_files_by_their_names_is_no_question(director: Director, command: str) -> None:
    assert director.evaluate(Action(command, cwd="/srv/app")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "find /",
        "find / -type d",
        "find / -name '*'",
        "find / -name '*a*'",
        "find / -name '*.py'",
        "find / -name '[abc]*'",
        "find / -iname '[A-Za-z0-9]*'",
        "find / -not -name javac",
        "find / ! -name javac -type f",
        "find / -name javac -o -type d",
        "find / -name javac , -print",
        "find / -name javac -o -print",
        "find / -print -name javac",
        "find / -path '*javac*'",
        'find / -name "$X"',
        "find / -name javac -delete",
        "find / -name javac -exec cat {} +",
        "find / -name 'id_rsa*'",
        "find / -name '*.pem'",
        "find ~/.aws -name config",
        "find / -iname '*Password*'",
        "find / -name javac -fprint /srv/found",
    ],
)
def test_listing_all_that_there_is_and_looking_for_secrets_are_questions(director: Director, command: str) -> None:
    assert director.evaluate(Action(command, cwd="/srv/app")).verdict is Verdict.ASK
