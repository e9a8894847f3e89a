"""Examples in docstrings and documents are code: found as Python's own doctest finds them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.languages import read
from humanlayer_agent.shell.languages.doctests import examples

LINE = st.sampled_from(
    ["", "    ", "text", ">>> f(1)", "    >>> x = 2", "    ... y", "... z", "\t>>> a", "        ... b", ">>>", "    >>> ", "  ..."]
)  # fmt: skip


@given(st.lists(LINE, max_size=8).map("\n".join))
def test_every_example_is_found_that_doctest_finds(text: str) -> None:
    try:
        known = doctest.DocTestParser().get_examples(text)
    except ValueError:  # doctest runs nothing of it
        return
    found = [line for example in examples(text) for line in example.split("\n") if line.strip()]
    for example in known:
        for line in example.source.splitlines():
            assert not line.strip() or line in found


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (">>> import os\n>>> os.remove('/srv/x')\n", ["delete"]),
        ('def f():\n    """\n    >>> import os; os.remove("/srv/x")\n    """\n', ["delete"]),
        (">>> for each in ['/srv/x']:\n...     open(each, 'w')\n", ["write"]),
        (">>> 1 +\n\n>>> open('/srv/x', 'w')\n", ["write"]),
        ("import os\nos.remove('/srv/x')\n", []),
    ],
)
def test_what_examples_do(text: str, kinds: list[str]) -> None:
    behaviour = read("doctest", text, path="/p/notes.txt")
    assert behaviour is not None
    assert [act.kind for act in behaviour.acts if act.role != "import"] == kinds
