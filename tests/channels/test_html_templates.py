"""Pages from templates: text stays text wherever it stands, and nothing is left out by mistake."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from humanlayer_agent.channels.html_templates import html_templates
from humanlayer_agent.safe_text import visible

TEMPLATES = html_templates(Path(__file__).parent)


class Reader(HTMLParser):
    """The texts and the elements of a piece of markup."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_text_stays_text_wherever_it_stands(said: str) -> None:
    template = TEMPLATES.from_string('<p title="{{ said }}">{{ said }}<b>{{ [said] | join }}</b></p>')
    read = Reader(template.render(said=said))
    assert [name for name, _ in read.elements] == ["p", "b"]
    assert read.elements[0][1] == {"title": visible(said)}
    assert read.text == visible(said) * 2


def test_only_what_templates_write_is_markup() -> None:
    template = """{% macro b(x) %}<b>{{ x }}</b>{% endmacro %}{{ b("<i>") }}{{ b(b("x")) }}{{ "<p>" }}"""
    assert TEMPLATES.from_string(template).render() == "<b>&lt;i&gt;</b><b><b>x</b></b>&lt;p&gt;"


def test_numbers_are_short() -> None:
    assert TEMPLATES.from_string("{{ a }} {{ b }} {{ c }}").render(a=1 / 3, b=12345, c=2.0) == "0.333333 12345 2"


def test_a_name_that_nobody_gave_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'nobody' is undefined"):
        TEMPLATES.from_string("{{ nobody }}").render()
