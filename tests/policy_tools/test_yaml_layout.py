"""The one layout of policy files: laid out twice it stays, it means the same, and no comment is lost or misplaced."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import loader
from humanlayer_agent.policy.language.yaml_positions import parse
from humanlayer_agent.policy_tools.yaml_layout import WIDTH, flow, formatted, scalar
from tests.support.extent import examples

ROOT = Path(__file__).parents[2]
SHIPPED = sorted({*ROOT.glob("policies/*.yaml"), *ROOT.glob("humanlayer_agent/cli/init/templates/p*.yaml")})
HEAD = "version: 1\npolicy: p\n"
RULE = "  - id: a\n    decision: ask\n    when: {program: rm}\n"


def laid_out(text: str) -> str:
    """What becomes of a text; twice, to be sure."""
    once = formatted(text, "p.yaml")
    assert formatted(once, "p.yaml") == once
    assert parse(once, "p").data == parse(text.removeprefix("\ufeff"), "p").data
    return once


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_means_the_same(path: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(laid_out(path.read_text()))
    (tmp_path / "old.yaml").write_text(path.read_text())
    before, after = (loader.load(tmp_path / name, tested=False) for name in ("old.yaml", "p.yaml"))
    assert after.deciding("2026-01-01") == before.deciding("2026-01-01")
    assert (after.description, after.defaults, after.confinements) == (
        before.description, before.defaults, before.confinements,
    )  # fmt: skip
    for ours, theirs in zip(after.rules, before.rules, strict=True):
        assert {**ours.written, "origin": ""} == {**theirs.written, "origin": ""}


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        # Keys, in the order of the reference.
        ("policy: p\nextends: builtin:guard\nversion: 1\n", "version: 1\npolicy: p\nextends: builtin:guard\n"),
        (
            "rules: [{when: {program: rm}, decision: ask, id: a}]\npolicy: p\nversion: 1",
            f"{HEAD}rules:\n{RULE}",
        ),
        # What stands inside of a mapping whose keys are anybody's stays in its order.
        (f"{HEAD}extends: builtin:guard\nlists: {{z: [b], a: [c]}}\n",
         f"{HEAD}extends: builtin:guard\nlists:\n  z: [b]\n  a: [c]\n"),
        # Quotation marks.
        (f"{HEAD}extends: ['builtin:guard', \"x.yaml\"]\n", f"{HEAD}extends: [builtin:guard, x.yaml]\n"),
        (f"{HEAD}description: 'a, b: {{c}}'\nextends: x.yaml\n", f"{HEAD}description: \"a, b: {{c}}\"\nextends: x.yaml\n"),
        (f"{HEAD}description: 'yes'\nextends: x.yaml\n", f"{HEAD}description: \"yes\"\nextends: x.yaml\n"),
        # Indents, blank lines, marks of documents, the end of the file.
        (f"---\n{HEAD}\n\n\nrules:\n- id: a\n\n  decision: ask\n  when:\n      program: rm\n\n\n...\n",
         f"{HEAD}\nrules:\n  - id: a\n\n    decision: ask\n    when:\n      program: rm\n"),
        (f"{HEAD}rules: []\nextends: x.yaml", f"{HEAD}extends: x.yaml\nrules: []\n"),
        # Comments beside what they are about, and what is above it.
        ("# head\n\npolicy: p # name\nversion: 1  # of it\n# why\nextends: x.yaml\n# end",
         "# head\n\nversion: 1  # of it\npolicy: p # name\n# why\nextends: x.yaml\n# end\n"),
        (f"{HEAD}rules:\n  # first\n{RULE}    # below\n  # second\n{RULE.replace('id: a', 'id: b')}# rest\nextends: x.yaml\n",
         f"{HEAD}# rest\nextends: x.yaml\nrules:\n  # first\n{RULE}    # below\n  # second\n{RULE.replace('id: a', 'id: b')}"),
        (f"{HEAD}rules:\n  - decision: ask\n    # whose\n    id: a # name\n    when: {{program: rm}}\n",
         f"{HEAD}rules:\n  # whose\n  - id: a # name\n    decision: ask\n    when: {{program: rm}}\n"),
        # A comment inside brackets: they are opened.
        (f"{HEAD}extends: [x.yaml, # ours\n  # theirs\n  y.yaml]\n",
         f"{HEAD}extends:\n  - x.yaml        # ours\n  # theirs\n  - y.yaml\n"),
        (f"{HEAD}rules: # all\n- {{id: a, decision: ask, when: {{program: rm}}}} # one\n", f"{HEAD}rules: # all\n  # one\n{RULE}"),
        # Texts with several lines.
        (f"{HEAD}description: |\n  a\n   b\nextends: x.yaml\n", f"{HEAD}description: |\n  a\n   b\nextends: x.yaml\n"),
        (f"{HEAD}description: >- # why\n  a\n  b\nextends: x.yaml\n", f"{HEAD}description: a b # why\nextends: x.yaml\n"),
        # Anchors stand where they are met first.
        ("extends: &a [x.yaml]\npolicy: p\nversion: 1\nlists: {b: *a}\n",
         f"{HEAD}extends: &a [x.yaml]\nlists:\n  b: *a\n"),
        ("lists: {b: &a [x.yaml]}\npolicy: p\nversion: 1\nextends: *a\n",
         f"{HEAD}extends: &a [x.yaml]\nlists:\n  b: *a\n"),
    ],
)  # fmt: skip
def test_how_it_is_laid_out(written: str, wanted: str) -> None:
    assert laid_out(written) == wanted


def test_what_is_too_long_is_broken_where_it_can_be() -> None:
    reason = "A reason that is quite long. " * 8
    text = f"""{HEAD}rules:
  - id: a
    decision: ask
    reason: "{reason.strip()}"
    when: {{program: rm, operands: {{any: [{", ".join(f"operand-number-{n}" for n in range(12))}]}}}}
    tests: {{match: ["rm {"x" * 200}"]}}
"""
    found = laid_out(text).splitlines()
    assert [line for line in found if len(line) > WIDTH] == [f'        - "rm {"x" * 200}"']
    assert "    reason: >-" in found
    assert "        - operand-number-3" in "\n".join(found)


def test_ends_of_lines_and_the_byte_order_mark() -> None:
    text = f"{HEAD}extends: 'x.yaml' # é\n"
    assert formatted(text.replace("\n", "\r\n"), "p") == f"{HEAD}extends: x.yaml   # é\n".replace("\n", "\r\n")
    assert formatted("\ufeff" + text, "p") == f"{HEAD}extends: x.yaml   # é\n"


LAUGHS = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1:1: the file is empty"),
        ("- a\n", "1:1: expected a mapping"),
        (f"{HEAD}rulez: []\n", "3:1: unknown key 'rulez'"),
        (f"{HEAD}extends: [\n", "not YAML"),
        (f"{HEAD}policy: q\nextends: x.yaml\n", "3:1: the key 'policy' stands here twice"),
        (f"{HEAD}lists: {{a: &a [x], b: {{<<: *a}}}}\nextends: x.yaml\n", "merge keys (<<) are not read here"),
        (f"{HEAD}extends: !!python/name:os.system x\n", "is not read here"),
        (f"{HEAD}extends: !mine x\n", "3:10: the tag !mine is not read here"),
        (f"{HEAD}lists:\n  l0: &l0 [x]\n{LAUGHS}extends: x.yaml\n", "too large or too deep"),
        (f"{HEAD}extends: &a [*a]\n", "contains itself"),
        (f"{HEAD}extends: {'[' * 200}\n", "too large or too deep"),
        (f"{HEAD}lists: {{a: &a [x], b: &a [y]}}\nextends: x.yaml\n", "second occurrence"),
        (f"%YAML 1.1\n---\n{HEAD}extends: x.yaml\n", "1:1: directives (%)"),
        (f"{HEAD}extends: x.yaml\n---\n{HEAD}", "not YAML"),
        (f"{HEAD}extends: x.yaml # a\u2028\n", r"3:20: '\u2028' ends a line for YAML"),
        (f"{HEAD}extends: x.yaml # a\r# b\n", r"3:20: '\r' ends a line for YAML"),
        (f"{HEAD}'list[s': []\nextends: x.yaml\n", "unknown key 'list[s'"),
        (f"{HEAD}extends: x\ty: z\n", "not YAML"),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(PolicyError) as told:
        formatted(text, "p.yaml")
    assert says in str(told.value)


def test_many_comments_take_no_time_to_speak_of() -> None:
    """Twice as long a file takes about twice as long: each comment is looked up, and no list is gone through for it."""
    text = (
        HEAD + "extends: x.yaml\nlists:\n  a:\n" + "".join(f"    # about {n}\n    - x{n} # {n}\n" for n in range(3000))
    )
    assert laid_out(text) == text


@given(
    st.text(
        alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cn"]) | st.sampled_from("\n\t :#,[]{}'\"\\&*!|>%@`-?=~")
    )
)
def test_a_text_stays_a_text(text: str) -> None:
    for item in (True, False):
        assert parse(f"a: {scalar(text, item=item)}\n", "x").data == {"a": text}
    assert parse(flow({"a": [text, {text: text}]}) + "\n", "x").data == {"a": [text, {text: text}]}
    assert "\n" not in flow([text])


MIXED = """# head
version: 1
policy: p   # x
lists: {a: [b, c], "d": &q [e]}
rules:
  - id: a # c
    decision: ask
    reason: >-
      long text
      more
    when:
      program: [x, # y
        z]
      any: [{argv: ["a b", 'c']}, {flags: {any: *q}}]
      # below
  - {id: b, decision: deny, when: {program: *q}} # end
# foot
"""
PIECES = [
    "\r",
    "\n",
    "\t",
    "\x85",
    "\u2028",
    "\ufeff",
    "\xa0",
    " #",
    ": ",
    "- ",
    "? ",
    "|\n",
    ">-\n",
    "&a ",
    "*q",
    "!!str ",
    "<<: *q",
    "'",
    '"',
    "\\",
    "{",
    "]",
    ",",
    "%",
    "---\n",
    "  ",
    "\x1b",
]


def test_a_comment_stays_beside_what_follows_a_block_of_text() -> None:
    text = f"version: 1\npolicy: p\nrules:\n  - id: a\n    decision: deny\n    reason: >-\n      {'x' * 140}\n    when: # beside\n      program: rm\n"
    assert "    when: # beside\n" in laid_out(text)


@settings(max_examples=examples(500), deadline=None, phases=[Phase.generate])
@given(st.integers(0, len(MIXED) - 1), st.sampled_from(PIECES) | st.integers(1, 6))
def test_a_broken_file_is_refused_or_laid_out(at: int, piece: str | int) -> None:
    """Something is put in, or taken out, anywhere: no other error is raised, and no comment or value is lost."""
    text = MIXED[:at] + (piece + MIXED[at:] if isinstance(piece, str) else MIXED[at + piece :])
    try:
        laid_out(text)
    except PolicyError as error:
        assert "stays as it is" not in str(error)


# ---- generated policies ---------------------------------------------------------------------------------------

WORDS = st.text(alphabet="ab1 :#,[]{}'\"\\*$/-~.é", min_size=1, max_size=12) | st.sampled_from(
    ["yes", "12", "null", "~", "2030-12-31", "a: b", "# x", "rm -rf \"$X\"", "- a", "? b", "x" * 130, "long text " * 20, "a\nb", "a\n\n b\n"]
)  # fmt: skip
NAMES = st.lists(WORDS, min_size=1, max_size=3) | WORDS
KINDS = st.sampled_from(["read", "write", "delete", "network"])
CLAUSES = {
    "program": NAMES | st.fixed_dictionaries({"in": NAMES, "resolved": st.booleans()}),
    "subcommand": NAMES,
    "effect": KINDS | st.lists(KINDS, min_size=1, max_size=2),
    "paths": st.fixed_dictionaries({"role": NAMES, "any_within": NAMES}),
    "options": st.dictionaries(WORDS, NAMES, min_size=1, max_size=2),
    "recursive": st.booleans(),
    "tool": st.fixed_dictionaries({"args": st.dictionaries(WORDS, NAMES, min_size=1, max_size=2), "name": NAMES}),
}
FLAT = st.fixed_dictionaries({}, optional=CLAUSES).filter(bool)
MATCHES = FLAT | st.fixed_dictionaries({"any": st.lists(FLAT, min_size=1, max_size=2)}, optional={"not": FLAT})
TESTS = st.fixed_dictionaries(
    {}, optional={"not_match": st.lists(WORDS, max_size=3), "match": st.lists(WORDS, max_size=3)}
)
RULES = st.fixed_dictionaries(
    {"when": MATCHES, "decision": st.sampled_from(["ask", "deny"])},
    optional={"tests": TESTS, "reason": WORDS, "unless": MATCHES, "severity": st.sampled_from(["low", "high"])},
)
POLICIES = st.fixed_dictionaries(
    {"rules": st.lists(RULES, min_size=1, max_size=3), "policy": st.just("p"), "version": st.just(1)},
    optional={
        "lists": st.dictionaries(st.sampled_from(["b", "a", "c-d"]), NAMES | st.fixed_dictionaries({"add": NAMES}), max_size=2),
        "description": WORDS,
        "exceptions": st.lists(
            st.fixed_dictionaries({"when": MATCHES, "expires": st.just("2030-12-31"), "rule": st.just("x"), "reason": WORDS}), max_size=1
        ),
    },
)  # fmt: skip
REMARKS = st.lists(st.sampled_from(["", "", "", "beside", "above", "indented", "blank"]), min_size=1, max_size=12)


def spoiled(policy: dict[str, Any], flow_style: bool | None, remarks: list[str], single: bool) -> str:
    """A policy as somebody may write it, with comments of each kind."""
    for n, rule in enumerate(policy["rules"]):
        rule["id"] = f"r{n}"
    text = yaml.dump(
        policy, default_flow_style=flow_style, width=10**6, allow_unicode=True, sort_keys=False, default_style='"' if single else None
    )  # fmt: skip
    lines = []
    for n, line in enumerate(text.splitlines()):
        remark = remarks[n % len(remarks)]
        indent = line[: len(line) - len(line.lstrip())]
        quoted = line.lstrip().startswith(("'", '"')) or line.count("'") % 2 or line.count('"') % 2
        inside = (lines and lines[-1].endswith(("|", "|-", "|+"))) or quoted
        if remark in ("above", "indented") and not inside:
            lines.append(f"{indent + '  ' * (remark == 'indented')}# comment {n}")
        if remark == "blank" and not inside:
            lines.append("")
        lines.append(
            f"{line}  # beside {n}" if remark == "beside" and not inside and not line.endswith(("\\", "|-")) else line
        )
    return "\n".join(lines) + "\n"


def remarks_of(text: str) -> list[str]:
    return sorted(re.findall(r"# (?:comment|beside) [0-9]+$", text, re.MULTILINE))


@settings(max_examples=examples(500), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(POLICIES, st.sampled_from([True, False, None]), REMARKS, st.booleans())
def test_generated_policies_mean_the_same(
    policy: dict[str, Any], style: bool | None, remarks: list[str], single: bool
) -> None:
    text = spoiled(policy, style, remarks, single)
    try:
        assume(parse(text, "p").data == policy)
    except PolicyError:
        assume(False)  # a comment in the middle of a text that goes over several lines
    found = laid_out(text)
    assert remarks_of(found) == remarks_of(text)
