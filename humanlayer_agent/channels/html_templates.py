"""The one way in which pages are made: Jinja templates that escape everything, and show nothing that can't be seen."""

from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.safe_text import visible

if TYPE_CHECKING:
    from jinja2 import Environment


def html_templates(folder: Path) -> "Environment":
    r"""Return the environment that renders the templates in a folder.

    What a template shows is made `visible` and then escaped, wherever it comes from; only what templates wrote
    themselves is markup. A name that a template uses and nobody gave is an error.

    Example:
        >>> html_templates(Path()).from_string("<b>{{ said }}</b>").render(said="<i>\u202e")
        '<b>&lt;i&gt;\\u{202e}</b>'
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    if hasattr(value, "__html__"):
        return value  # markup: a template wrote it, and everything in it has been here before
    return f"{value:g}" if isinstance(value, float) else visible(str(value))
