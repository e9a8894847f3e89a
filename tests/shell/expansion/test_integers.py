"""Variables with the attribute -i evaluate what they are given; some have it without having been asked."""

import pytest

from humanlayer_agent.shell.analysis import analyse

CODE = "a[$(touch /srv/x)]"


@pytest.mark.parametrize("name", ["RANDOM", "SRANDOM", "OPTIND", "HISTCMD"])
@pytest.mark.parametrize(
    "form",
    ["{0}='{1}'", "{0}+='{1}'", "export {0}='{1}'", "declare {0}='{1}'", "read {0} <<< '{1}'", "printf -v {0} %s '{1}'",
     "for {0} in '{1}'; do :; done", ": ${{{0}:={1}}}", "mapfile {0} <<< '{1}'", "x='{1}'; {0}=x", "f() {{ local {0}='{1}'; }}; f"],
)  # fmt: skip
def test_bash_evaluates(name: str, form: str) -> None:
    assert analyse(form.format(name, CODE), cwd="/p").status != "ok" or "touch" in {
        c.program for c in analyse(form.format(name, CODE), cwd="/p").commands
    }


@pytest.mark.parametrize("form", ["for x in '{0}'; do :; done", "printf -v x %s '{0}'", ": ${{x:={0}}}", "x='{0}'"])
def test_so_do_variables_that_were_declared(form: str) -> None:
    assert analyse("declare -i x; " + form.format(CODE), cwd="/p").status != "ok"


@pytest.mark.parametrize(
    "command",
    ["OPTIND=1", "RANDOM=42", "f() { local OPTIND=1; }; f", "while getopts ab o; do echo $o; done", "for RANDOM in 1 2; do :; done",
     "x=$RANDOM; echo $((x % 5))", "declare -i x; for x in 1 2; do :; done", "declare -i x; printf -v x %s 3"],
)  # fmt: skip
def test_numbers_are_harmless(command: str) -> None:
    assert analyse(command, cwd="/p").status == "ok"
