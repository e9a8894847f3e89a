"""Rules and exceptions are added to a policy file, and all that stands there stays."""

import pytest
import yaml

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy_tools.yaml_additions import added
from humanlayer_agent.policy_tools.yaml_layout import flow

RULE = {"id": "new", "decision": "allow", "when": {"program": "frob", "operands": {"all": ["a: b", "#", "yes", "12"]}}}
FILE = """\
# The team's.
version: 1   # of the format
rules:       # ours
    - id: a  # the first

      when: {program: x}
      tests:
        match:
          - x   # plainly
    # below the last
lists:
  mine: [a]
# the end"""


@pytest.mark.parametrize(
    "text",
    [
        FILE,
        "version: 1\npolicy: p\n",
        "rules:\n- id: a\n  when: {program: x}\n\n\nversion: 1\n",
        "rules:\n- id: a\n  reason: |\n    a\n    b\nversion: 1\n",
        "rules:\n- id: a\n  reason: >-\n    a\n\n\n    b\n",
        "rules: # x\n  - {id: a,\n     when: {program: x}}   # y\n",
        "version: 1\nrules:\n  - id: é\n",
    ],
)
def test_everything_else_stays(text: str) -> None:
    changed = added(text, "p.yaml", {"rules": [RULE], "exceptions": []})
    before, after = yaml.safe_load(text), yaml.safe_load(changed)
    assert after == {**before, "rules": [*before.get("rules", []), RULE]}
    left = changed.splitlines()
    for line in text.splitlines():  # every line in its order
        assert line in left, line
        del left[: left.index(line) + 1]


def test_both_lists() -> None:
    changed = added(FILE, "p.yaml", {"rules": [RULE, RULE], "exceptions": [{"rule": "x", "tests": {"match": ["y"]}}]})
    after = yaml.safe_load(changed)
    assert after["rules"][1:] == [RULE, RULE]
    assert after["exceptions"] == [{"rule": "x", "tests": {"match": ["y"]}}]


@pytest.mark.parametrize("text", ["rules: []\n", "rules: [{id: a}]\n", "{version: 1}\n", "- a\n", "rules:\n"])
def test_what_is_written_otherwise_is_left_to_humans(text: str) -> None:
    with pytest.raises(PolicyError, match="below the other"):
        added(text, "p.yaml", {"rules": [RULE]})


@pytest.mark.parametrize("value", ["yes", "12", "a: b", "# x", "null", "'", '"', "\u2028", "é", "{", "x\ny", ""])
def test_a_text_stays_a_text(value: str) -> None:
    assert yaml.safe_load(flow({"k": [value]})) == {"k": [value]}
    assert "\n" not in flow({"k": [value]})
