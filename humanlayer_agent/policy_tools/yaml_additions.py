"""Rules and exceptions added to the text of a policy file: all that stands there, comments too, stays as it was."""

from collections.abc import Mapping, Sequence
from typing import Any

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy_tools.yaml_layout import flow, scalar


def item(entry: Mapping[str, Any]) -> list[str]:
    """The lines of a rule or exception in a block list, without its indent."""
    lines: list[str] = []
    for key, value in entry.items():
        if key == "tests":
            if value:
                lines.append("tests:")
            lines += [f"  {kind}: {flow(commands)}" for kind, commands in value.items()]
        else:
            lines.append(f"{key}: {scalar(value, item=False) if isinstance(value, str) else flow(value)}")
    return [("- " if n == 0 else "  ") + line for n, line in enumerate(lines)]


def added(text: str, name: str, entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the text of a policy file with more entries in its lists.

    Args:
        text: of the file.
        name: of the file, for messages.
        entries: what is added to `rules` and `exceptions`.

    Raises:
        PolicyError: a list stands in brackets, on one line, or the text is no policy file.

    Example:
        >>> print(added("rules:\\n  - {id: a}\\n", "x", {"rules": [{"id": "b"}]}), end="")
        rules:
          - {id: a}
          - id: b
    """
    import yaml

    for key, more in entries.items():
        if not more:
            continue
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            raise PolicyError(f"{name}: expected a policy file, with its keys one below the other")
        value = next((v for k, v in root.value if k.value == key), None)
        lines = text.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        if value is None:
            indent, at, head = "  ", len(lines), [f"{key}:\n"]
        elif isinstance(value, yaml.SequenceNode) and not value.flow_style and value.value:
            indent, at, head = " " * value.start_mark.column, _last_line(value) + 1, []
        else:
            raise PolicyError(f"{name}:{value.start_mark.line + 1}: write `{key}` as a list, one entry below the other")
        new = [f"{indent}{line}\n" for entry in more for line in item(entry)]
        text = "".join((*lines[:at], *head, *new, *lines[at:]))
    return text


def _last_line(node: Any) -> int:
    """The line (from 0) on which the last thing in a node ends; what stands below a list is not part of it."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    end = node.end_mark
    return int(end.line if end.column else end.line - 1)
