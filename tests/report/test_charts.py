"""Charts: where their marks stand, and that they are drawn so."""

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from humanlayer_agent.report.audit_charts import spans
from humanlayer_agent.report.charts import Chart, Series, bars, columns, heat, line
from humanlayer_agent.report.facts import Facts
from humanlayer_agent.report.pages import environment

from .hostile import START


def drawn(chart: Chart) -> ElementTree.Element:
    """The picture of a chart."""
    return ElementTree.fromstring(environment().get_template("charts.html.j2").module.picture(chart))  # type: ignore[attr-defined]


numbers = st.floats(0, 1e9, allow_nan=False) | st.integers(0, 10**9)


@pytest.mark.long
@given(st.lists(st.tuples(st.text(max_size=40), numbers, numbers), max_size=40))
@example([("", 0.0, 5e-324)])
def test_charts_are_xml_with_a_title_and_stay_in_their_frame(rows: Any) -> None:
    labels = [label for label, _, _ in rows]
    series = [Series("a", "allow", [n for _, n, _ in rows]), Series("b", "deny", [n for _, _, n in rows])]
    pictures = [
        columns("T", "about", labels, series),
        bars("T", "about", labels, series),
        line("T", "about", labels, [n if n > 1 else None for _, n, _ in rows]),
    ]
    for picture in pictures:
        root = drawn(picture)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        assert [root[0].tag, root[1].tag] == ["title", "desc"]
        for mark in root.iter("rect"):
            assert 0 <= float(mark.attrib["x"]) + float(mark.attrib["width"]) <= width + 1
            assert -1 <= float(mark.attrib["y"]) <= height


def test_columns_are_as_high_as_their_values() -> None:
    root = drawn(columns("T", "a", ["x", "y"], [Series("n", "ask", [10, 40])]))
    low, high = (float(mark.attrib["height"]) for mark in root.iter("rect"))
    assert high == pytest.approx(4 * low, rel=0.01)


def test_the_heat_is_darker_where_there_is_more() -> None:
    root = drawn(heat("T", "a", ["Mon"], ["00", "01", "02"], [[0, 1, 100]]))
    assert [mark.attrib["class"] for mark in root.iter("rect")] == ["heat0", "heat1", "heat5"]


@pytest.mark.parametrize(("days", "shown"), [(1, 1), (92, 92), (93, 14), (400, 58), (2_900_000, 92)])
def test_a_long_time_has_no_more_columns_than_fit(sealed: Any, decided: Any, days: int, shown: int) -> None:
    ends = [decided("ls", "allow", at=START), decided("ls", "ask", at=START + (days - 1) * 86_400_000)]
    found = spans(Facts().collect(sealed(ends)))
    assert len(found) == shown
    assert [sum(each.verdicts.values()) for each in (found[0], found[-1])] == ([2, 2] if days == 1 else [1, 1])
