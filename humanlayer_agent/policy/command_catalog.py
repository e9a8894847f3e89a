"""The command catalog that policies are judged with: what its YAML says is kept in the user's state directory.

A file there is believed only where this user alone can have written it, and only for exactly the text it was made from.
"""

from humanlayer_agent.locations import read_own_json, state_path, write_own_json
from humanlayer_agent.shell import Catalog


class StateFolder:
    """A `Cache` of the catalog in the user's state directory, one JSON file an entry."""

    def load(self, key: str) -> object | None:
        """The content that was stored under `key`, or None."""
        path = self._path(key)
        kept = read_own_json(path) if path is not None else None
        return kept.get("content") if kept is not None and kept.get("for") == key else None

    def store(self, key: str, content: object) -> None:
        """Keep `content`, if there is a place for it."""
        path = self._path(key)
        if path is not None:
            write_own_json(path, {"for": key, "content": content})

    def _path(self, key: str) -> str | None:
        try:
            return state_path("catalog", f"{key}.json")
        except RuntimeError:  # nobody knows where this user's home is
            return None


CATALOG = Catalog(cache=StateFolder())
