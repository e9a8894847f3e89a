"""A secret that one variable gives to another is followed as the analysis of the command line follows it."""

import pytest

from humanlayer_agent.redaction.redactor import ERASED, redact
from humanlayer_agent.shell import Flows, analyse


@pytest.mark.parametrize(
    "command",
    [
        'x=SECRET; y=$x; mysql -p"$y"',
        'x=SECRET; y="${x}"; z=$y; mysql -p"$z"',
        'x=SECRET; y=${x:-a}; mysql -p"$y"',
        'x=SECRET; for y in $x; do mysql -p"$y"; done',
        'x=SECRET; declare -r y=$x; mysql -p"$y"',
        'x=SECRET; : ${y:=$x}; mysql -p"$y"',
        'f() { local y=$1; mysql -p"$y"; }; f SECRET',
        "x=SECRET; DB_PAT=$x ./deploy",
        'echo SECRET | tr -d "." | while read -r x; do mysql -p"$x"; done',
        'f() { read -r x; mysql -p"$x"; }; f <<< SECRET',
        'x=$(f() { echo SECRET; }; f); mysql -p"$x"',
        "echo SECRET | tr a b | docker login --password-stdin",
        "echo SECRET | { docker login --password-stdin; }",
        "{ docker login --password-stdin; } <<< SECRET",
        "f() { echo SECRET; }; f | docker login --password-stdin",
        "docker login --password-stdin < <(echo SECRET)",
        "cat <<E | bash\nmysql -pSECRET db\nE",
        'x=SECRET; y=$x; mysql -p"$y"; echo "${!z}"',  # what that is can't be told
        'x=SECRET; y=$x; mysql -p"$y"; if',
    ],
)
def test_it_is_hidden(command: str) -> None:
    assert "hunter22" not in redact(command.replace("SECRET", "hunter22")).text


@pytest.mark.parametrize(
    "command",
    [
        "host=example.org; TOKEN=$(curl https://$host/t)",
        "user=alice; pw=$2; DB_USER=$user DB_PASSWORD=$pw ./deploy",
        'name=alice; y=$name; mysql -u"$y"',
    ],
)
def test_what_only_leads_to_one_is_shown(command: str) -> None:
    assert redact(command).text == command


def test_what_stands_beside_the_input_is_shown() -> None:
    command = 'docker login -u "$(echo alice)" --password-stdin <<< hunter22; echo bob | cat'
    assert redact(command).text == command.replace("hunter22", ERASED)


def test_what_the_analysis_did_not_come_to_is_hidden_as_a_whole() -> None:
    command = ":; " * 2_500 + "echo hunter22 | docker login --password-stdin"
    assert redact(command).text == ERASED


def test_only_the_one_is_hidden() -> None:
    assert redact("set -- me hunter22; curl -u $1:$2 h").text == f"set -- me {ERASED}; curl -u $1:$2 h"


def test_variables_that_are_given_the_values_of_others() -> None:
    given = Flows(analyse('y=$x; export z="a$y"; for i in $z "$w"; do :; done; a=$(cat $b)', cwd="/p")).given
    assert given == {"y": {"x"}, "z": {"y"}, "i": {"z", "w"}}
    assert Flows(analyse("y=$x; if", cwd="/p")).given is None
