"""The JSON Schemas of the files that people write, as text: for editors, beside the files or wherever they are kept."""

import json
from functools import cache
from typing import Any, Literal

Kind = Literal["policy", "channels", "catalog", "tools"]


@cache
def schema_text(of: Kind) -> str:
    """Return the JSON Schema of a kind of file.

    Example:
        >>> schema_text("catalog").splitlines()[1]
        '  "$schema": "https://json-schema.org/draft/2020-12/schema",'
    """
    return json.dumps(_schema(of), indent=2, ensure_ascii=False) + "\n"


def _schema(of: Kind) -> dict[str, Any]:
    from humanlayer_agent.policy.language.json_schema import json_schema

    if of == "tools":
        from humanlayer_agent.tools import catalog

        return catalog.json_schema()
    if of == "catalog":
        from humanlayer_agent.policy.layers.catalog_schema import CatalogForm

        return json_schema(CatalogForm, "A catalog file of humanlayer-agent")
    if of == "channels":
        from humanlayer_agent.channels.settings.schema import Profile

        return json_schema(Profile, "A channels file of humanlayer-agent")
    from humanlayer_agent.policy.language.schema import PolicyFile

    return json_schema(PolicyFile, "A policy of humanlayer-agent")
