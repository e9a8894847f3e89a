"""YAML is read strictly, and every complaint says where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import yaml_positions


def test_positions_count_from_one() -> None:
    document = yaml_positions.parse("a: 1\nb:\n  - x\n  - y: z\n", "f.yaml")
    assert document.data == {"a": 1, "b": ["x", {"y": "z"}]}
    assert document.positions[("b", 1, "y")] == yaml_positions.Position(4, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", "f.yaml:2:1: the key 'a' stands here twice\n    a: 2\n    ^"),
        ("a: [1, 2\n", "f.yaml:2:1: not YAML"),
        ("a: !!python/object:os.system x\n", "f.yaml:1:4: the tag"),
        ("<<: {a: 1}\n", "f.yaml:1:1: merge keys"),
        ("? [a]\n: b\n", "f.yaml:1:3: a key must be a plain word"),
        ("", "f.yaml:1:1: the file is empty"),
        ("a: &x [*x]\n", "f.yaml:1:4: an alias that contains itself"),
    ],
)
def test_mistakes_are_located(text: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        yaml_positions.parse(text, "f.yaml")
    assert str(caught.value).startswith(expected)


def test_the_offending_text_is_underlined() -> None:
    document = yaml_positions.parse("a:\n  - first\n  - second\n", "f.yaml")
    assert str(document.error(("a", 1), "expected something else")) == (
        "f.yaml:3:5: expected something else\n      - second\n        ^^^^^^"
    )


def test_aliases_count_each_time() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8)
    )
    with pytest.raises(PolicyError, match="too large or too deep"):
        yaml_positions.parse(bomb, "f.yaml")


def test_bytes_that_are_refused() -> None:
    with pytest.raises(PolicyError, match=r"f\.yaml: .* at most"):
        yaml_positions.decode(b"a" * (yaml_positions.MAX_BYTES + 1), "f.yaml")
    with pytest.raises(PolicyError, match=r"f\.yaml: byte 3 is not UTF-8"):
        yaml_positions.decode(b"a: \xe9\n", "f.yaml")


@given(st.text(max_size=200))
def test_any_text_is_data_or_a_policy_error(text: str) -> None:
    try:
        yaml_positions.parse(text, "f.yaml")
    except PolicyError as error:
        assert str(error).startswith("f.yaml")
