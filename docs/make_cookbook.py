"""Write docs/cookbook.md: rules to copy, made from docs/cookbook.yaml.

python docs/make_cookbook.py
"""

import textwrap
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).with_name("cookbook.md")
RECIPES = Path(__file__).with_name("cookbook.yaml")
_BEGINNING = """# The cookbook: {count} rules to copy

<!-- Made by docs/make_cookbook.py from docs/cookbook.yaml: change the recipes there. -->

Each recipe is the end of a policy file that begins like this:

```yaml
version: 1
policy: team
extends: [builtin:default]
```

A policy of several recipes has one `lists:` and one `rules:`, below which the lists and rules of all of them stand.
Below each recipe stands what the policy then says of some commands; our tests hold all of it true. `hla policy test`
runs the examples in the rules, and `hla policy lint` finds rules that never match, or that loosen more than they say.

[Policies](policies.md) says how rules are read, [policy files](policy-file.md) lists every key.
"""


def page() -> str:
    """Return the whole page."""
    sections = yaml.safe_load(RECIPES.read_text(encoding="utf-8"))
    count = sum(len(section["recipes"]) for section in sections)
    return "".join([_BEGINNING.format(count=count), *map(_section, sections)])


def _section(section: dict[str, Any]) -> str:
    return f"\n## {section['section']}\n\n{_filled(section['about'])}" + "".join(map(_recipe, section["recipes"]))


def _recipe(recipe: dict[str, Any]) -> str:
    about = f"{_filled(recipe['about'])}\n" if "about" in recipe else ""
    said = "".join(
        f"- {verdict}: {', '.join(map(_code, recipe['commands'][verdict]))}\n"
        for verdict in ("allow", "ask", "deny")
        if verdict in recipe["commands"]
    )
    return f"\n### {recipe['title']}\n\n{about}```yaml\n{recipe['policy']}```\n\n{said}"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 124) + "\n"


def _code(command: str) -> str:
    """Return a command as code in a line of the page."""
    return f"`` {command} ``" if "`" in command else f"`{command}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
