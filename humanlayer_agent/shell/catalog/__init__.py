"""The command catalog: what command line tools do with their arguments, as data.

One YAML file a tool or family stands beside this module; `lookup` finds a program's Spec. The form of
the files is described in `spec`.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from humanlayer_agent.shell.catalog.spec import CatalogError, Example, Spec, read_catalog

__all__ = ["CatalogError", "Example", "Spec", "examples", "lookup", "names"]

STANDARD_DIRECTORIES = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"})


@cache
def _catalog() -> tuple[dict[str, Spec], list[Example]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    specs: dict[str, Spec] = {}
    shown: list[Example] = []
    folder = Path(str(files(__name__)))
    for path in sorted(folder.glob("*.yaml")):
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        more, some = read_catalog(content, path.name)
        if twice := specs.keys() & more.keys():
            raise CatalogError(f"{path.name}: {', '.join(sorted(twice))} is already described in another file")
        specs |= more
        shown += some
    return specs, shown


def lookup(program: str) -> Spec | None:
    """The Spec of `program` (a bare name), or None where the catalog does not know it."""
    return _catalog()[0].get(program)


def names() -> list[str]:
    """Every program the catalog describes."""
    return sorted(_catalog()[0])


def examples() -> list[Example]:
    """The examples of every file; the tests run them."""
    return _catalog()[1]
