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
