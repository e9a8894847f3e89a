"""Figures of the log for `hla policy docs`, and the form of a web page."""

from contextlib import closing

from humanlayer_agent.cli.shared.store_access import open_store
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.handbook import Use

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>What agents may do here</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }}
pre {{ overflow-x: auto; padding: .75rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ border: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .25rem .5rem; }}
td, th {{ text-align: left; vertical-align: top; }}
</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def uses(store: str | None) -> dict[str, Use] | None:
    """Return by rule what the log says of it; None where there is no log yet."""
    from humanlayer_agent.report.facts import Facts, Wanted

    try:
        opened = open_store(store)
    except ConfigError:
        if store is not None:
            raise
        return None  # no agent has run here
    with closing(opened):
        found = Facts(Wanted()).collect(opened.events())
    return {name: Use(use.applied, use.decided["ask"], use.ends["approved"]) for name, use in found.rules.items()}


def as_html(page: str) -> str:
    """Return a page of Markdown as one of HTML. Headings of rules are what links to them name."""
    from itertools import pairwise

    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(page)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.tag == "h4":
            opening.attrSet("id", inline.content)
    return _PAGE.format(body=reader.renderer.render(tokens, reader.options, {}))
