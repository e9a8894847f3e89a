"""pathlib: Path objects, which stand for paths."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import files, path_values
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    DATA,
    PLAIN,
    WORDS,
    Bound,
    PathAtom,
    Thing,
    Value,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_PLAIN = frozenset(
    str.split(
        """
        exists is_file is_dir is_symlink is_mount is_socket is_fifo is_absolute is_relative_to samefile match full_match
        stat lstat owner group read_text read_bytes as_uri is_block_device is_char_device is_junction
        """
    )
)
_SAME = frozenset(str.split("__enter__ absolute resolve expanduser __copy__ readlink"))


def is_path(thing: Thing) -> bool:
    return thing.module == "pathlib"


def made(value: Value) -> Value:
    """Path objects for the paths in `value`."""
    return frozenset(Thing("pathlib", "Path", path_values.path_atom(a)) for a in value)


def parent(value: Value) -> Value:
    """`path.parent`."""
    return made(path_values.each(value, path_values.pure_parent))


def attribute(engine: "Engine", thing: Thing, name: str) -> Value:
    """`thing.name`."""
    if not is_path(thing):
        return _of_other(thing, name)
    path: PathAtom = thing.payload if thing.payload is not None else DATA
    whole = frozenset({path})
    if name == "parent":
        return parent(whole)
    if name == "name":
        return path_values.each(whole, path_values.name)
    if name in ("stem", "suffix"):
        root, ending = path_values.split_extension(path_values.name(path))
        return frozenset({root if name == "stem" else ending})
    if name in ("parts", "suffixes", "drive", "root", "anchor", "info"):
        return PLAIN
    return frozenset({Bound(thing, name)})


def _of_other(thing: Thing, name: str) -> Value:
    if thing.payload is not None and (thing.module, name) in (("tempfile", "name"), ("os", "path")):
        return frozenset({thing.payload})
    if thing.payload is not None and (thing.module, name) == ("os", "name"):
        return frozenset({path_values.name(thing.payload)})
    return frozenset({Bound(thing, name)})


def method(engine: "Engine", thing: Thing, name: str, args: Args) -> Value:
    """What `path.name(...)` gives; what it does is in the tables."""
    path: PathAtom = thing.payload if thing.payload is not None else DATA
    for value in args.every():
        capability_leaks.escape(engine, value, f"Path.{name}")
    first = args.at(0)
    if name in ("joinpath", "__truediv__", "__rtruediv__"):
        out = frozenset({path})
        for value in args.positional:
            out = frozenset(
                path_values.join(a, path_values.path_atom(b)) for a in map(path_values.path_atom, out) for b in value
            )
        return made(out if args.rest is None else PLAIN)
    if name in _SAME:
        change = {
            "absolute": path_values.absolute,
            "resolve": path_values.absolute,
            "expanduser": path_values.expand_user,
        }.get(name)
        return made(frozenset({change(path) if change is not None else DATA if name == "readlink" else path}))
    if name in ("with_name", "with_suffix", "with_stem", "relative_to"):
        return made(_changed(path, name, first or PLAIN))
    if name in ("rename", "replace", "move", "copy", "copy_into", "move_into"):
        return made(first) if first is not None and not name.endswith("_into") else made(PLAIN)
    if name in ("glob", "rglob", "iterdir", "walk"):
        return _listed(engine, path, name, first, args)
    if name == "open":
        return frozenset({file}) if (file := engine.sites.get((id(args.node), "file"))) is not None else ANYTHING  # type: ignore[arg-type]
    if name in ("write_text", "write_bytes"):
        files.whole(engine, frozenset({path}), args.at(0, "data"), args)
        return WORDS
    if name in ("as_posix", "__str__", "__fspath__", "__bytes__"):
        return frozenset({path})
    if name in _PLAIN:
        return PLAIN
    return attributes.stored(engine, name) | ANYTHING


def _changed(path: PathAtom, name: str, given: Value) -> Value:
    out: set[PathAtom] = set()
    for atom in given:
        new = path_values.path_atom(atom)
        if name == "with_suffix":
            out.add(path_values.with_suffix(path, new))
        elif name == "with_name":
            out.add(path_values.with_name(path, new))
        elif name == "with_stem":
            ending = path_values.split_extension(path_values.name(path))[1]
            known = isinstance(new, str) and isinstance(ending, str)
            out.add(
                path_values.with_name(path, f"{new}{ending}" if known else new if not isinstance(new, str) else DATA)
            )
        else:
            out.add(_relative(path, new))
    return frozenset(out)


def _relative(path: PathAtom, base: PathAtom) -> PathAtom:
    if isinstance(path, str) and isinstance(base, str) and path.startswith(base.rstrip("/") + "/"):
        return path[len(base.rstrip("/")) + 1 :]
    if type(path) is type(base) and hasattr(path, "directory"):
        from humanlayer_agent.shell.languages.python.values import Below

        return Below(".", strict=False)
    if hasattr(path, "directory"):
        from humanlayer_agent.shell.languages.python.values import Below

        return Below(".", strict=False)
    return DATA


def _listed(engine: "Engine", path: PathAtom, name: str, pattern: Value | None, args: Args) -> Value:
    """Paths in a directory."""
    known = only_texts(pattern) if pattern is not None else [""]
    climbing = known is None or any(path_values.climbs(p) or p.startswith("/") for p in known)
    found = made(PLAIN if climbing else frozenset({path_values.inside(path)}))
    held = engine.container(args.node, "list")
    if name == "walk":
        triple = engine.container(args.node, "tuple")
        inner = engine.container(args.node, "list", "names")
        engine.element(inner, frozenset({path_values.inside(".")}))
        engine.element(triple, made(frozenset({path_values.inside(path, strict=False)})), 0)
        engine.element(triple, frozenset({inner}), 1)
        engine.element(triple, frozenset({inner}), 2)
        found = frozenset({triple})
    engine.element(held, found)
    return frozenset({held})
