"""Write docs/api: a page for each public module, made from signatures and docstrings.

    python docs/make_api.py

The source is only read, so that adapters whose agents are not installed here have their page too.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "humanlayer_agent"
FOLDER = ROOT / "docs" / "api"
MODULES = (
    PACKAGE,
    f"{PACKAGE}.agents.mini",
    f"{PACKAGE}.agents.mini_v1",
    f"{PACKAGE}.agents.harbor",
    f"{PACKAGE}.agents.supervision",
    f"{PACKAGE}.adapters",
    f"{PACKAGE}.adapters.langchain",
    f"{PACKAGE}.adapters.openai_agents",
    f"{PACKAGE}.adapters.pydantic_ai",
    f"{PACKAGE}.adapters.inspect_ai",
    f"{PACKAGE}.adapters.claude_agent_sdk",
    f"{PACKAGE}.adapters.smolagents",
    f"{PACKAGE}.approvals.model",
    f"{PACKAGE}.policy.decision",
    f"{PACKAGE}.errors",
    f"{PACKAGE}.shell",
    f"{PACKAGE}.channels.contract",
    f"{PACKAGE}.testing.approvers",
    f"{PACKAGE}.testing.conformance",
    f"{PACKAGE}.testing.conformance_rig",
    f"{PACKAGE}.testing.scripted_channel",
    f"{PACKAGE}.testing.fake_slack",
)
"""The modules that users import from, in the order of the index."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Example|Agent options[^:]*)::?\s*$")
_ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*): (.*)$")


@dataclass(frozen=True)
class Named:
    """A public name: the module that defines it, and its definition there."""

    name: str
    module: "Module"
    node: ast.AST
    about: str


class Module:
    """A module's source, and what its names stand for."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = _path(name)
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.about = ast.get_docstring(self.tree) or ""
        self._elsewhere = _tables(self.tree)
        self._imports = _imports(self.tree) | {name: (home, name) for name, home in self._elsewhere.items()}
        self._listed = self._all()

    def public(self) -> list[str]:
        """Return the names of `__all__` in its order, or every public name that is defined here and has a docstring."""
        if self._listed:
            return self._listed
        return [each for each, _, about in self._defined() if not each.startswith("_") and about]

    def find(self, name: str) -> Named | None:
        """Follow `name` through imports inside the package to its definition."""
        for each, node, about in self._defined():
            if each == name:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and not about:
                    return self.find(node.value.id)
                return Named(name, self, node, about)
        target = self._imports.get(name)
        if target is None or not target[0].startswith(PACKAGE):
            return None
        home = Module(target[0])
        if (found := home.find(target[1])) is None and _path(f"{home.name}.{target[1]}").exists():
            whole = Module(f"{home.name}.{target[1]}")
            return Named(name, whole, whole.tree, whole.about)
        return found

    def base(self, node: ast.expr) -> Named | None:
        """Return the class that a base in a class statement is, where it is of this package."""
        if isinstance(node, ast.Subscript):
            return self.base(node.value)
        if isinstance(node, ast.Name):
            return self.find(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._imports:
            package, name = self._imports[node.value.id]
            return Module(f"{package}.{name}").find(node.attr) if package.startswith(PACKAGE) else None
        return None

    def _defined(self) -> Iterator[tuple[str, ast.AST, str]]:
        body = self.tree.body
        for node, after in zip(body, [*body, None][1:], strict=True):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if not any(isinstance(each, ast.Name) and each.id == "overload" for each in _decorators(node)):
                    yield node.name, node, ast.get_docstring(node) or ""
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    yield target.id, node, _text_of(after)

    def _all(self) -> list[str]:
        for node in self.tree.body:
            match node:
                case ast.Assign([ast.Name("__all__")], ast.List(elts)):
                    named = [self._elsewhere if isinstance(each, ast.Starred) else [_string(each)] for each in elts]
                    return sorted(
                        {name for names in named for name in names} - {"__version__"},
                        key=lambda name: (name.casefold(), name),
                    )
        return []


def _string(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _tables(tree: ast.Module) -> dict[str, str]:
    """Return the modules of names that are imported when they are first used, as tables of strings say."""
    return {
        _string(name): _string(home)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
        for name, home in zip(node.value.keys, node.value.values, strict=True)
        if _string(home).startswith(f"{PACKAGE}.")
    }


def _path(name: str) -> Path:
    place = ROOT.joinpath(*name.split("."))
    return place / "__init__.py" if (place / "__init__.py").exists() else place.with_suffix(".py")


def _imports(tree: ast.Module) -> dict[str, tuple[str, str]]:
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _decorators(node: ast.ClassDef | Function) -> list[ast.expr]:
    return [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]


def _is(node: ast.ClassDef | Function, *names: str) -> bool:
    return any(ast.unparse(each).rpartition(".")[2] in names for each in _decorators(node))


def _text_of(node: ast.AST | None) -> str:
    """Return the text that stands by itself below an assignment, as its docstring."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        lines = node.value.value.expandtabs().splitlines()
        return "\n".join([lines[0].strip(), *(line.removeprefix("    ") for line in lines[1:])]).strip()
    return ""


# Markdown


def page(name: str, pages: dict[str, str]) -> str:
    """Return the page of a module. `pages` are the files of all modules by name."""
    module = Module(name)
    parts = [f"# {name}", prose(module.about)]
    for each in module.public():
        found = module.find(each)
        if found is None:
            raise LookupError(f"{name}.{each} is public, and its definition was not found")
        home = found.module.name
        if home != name and home in pages:
            parts += [f"## {each}", f"See [{home}]({pages[home]}#{found.name.lower()})."]
        else:
            parts += described(found, each)
    return "\n\n".join(part for part in parts if part) + "\n"


def described(found: Named, shown: str) -> list[str]:
    """Return heading, signature, docstring and members of one definition."""
    node = found.node
    if isinstance(node, ast.Module):
        return [f"## {shown}", f"The module `{found.module.name}` as a whole.", prose(found.about)]
    if isinstance(node, ast.ClassDef):
        return [f"## {shown}", *of_class(found, node)]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [f"## {shown}", code(signature(node, node.name)), prose(found.about)]
    return [f"## {shown}", code(ast.unparse(node)) if len(ast.unparse(node)) < 400 else "", prose(found.about)]


def of_class(found: Named, node: ast.ClassDef) -> list[str]:
    """Return a class as a reader meets it: how it is made, what it is, what can be called."""
    bases = [ast.unparse(each) for each in node.bases]
    head = f"class {node.name}({', '.join(bases)})" if bases else f"class {node.name}"
    members = dict(_members(found))
    init = members.pop("__init__", None)
    lines, attributes = [head], _fields(node)
    if init is not None and isinstance(init.node, ast.FunctionDef) and "Protocol" not in bases:
        lines.append(signature(init.node, node.name, drop=1))
    elif _is(node, "dataclass"):
        fields = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign) and not _private(each)]
        lines.append(_wrapped(node.name, fields, ""))
    parts = [code("\n\n".join(lines)), prose(found.about)]
    parts += [f"**`{field}`**" + (f": {prose(about)}" if about else "") for field, about in attributes if about]
    for name, member in members.items():
        function = member.node
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if _is(function, "property", "cached_property"):
            returns = ast.unparse(function.returns) if function.returns else "object"
            parts += [f"### {node.name}.{name}", code(f"{name}: {returns}"), prose(member.about)]
        else:
            static = _is(function, "staticmethod")
            parts += [
                f"### {node.name}.{name}",
                code(signature(function, name, 0 if static else 1)),
                prose(member.about),
            ]
    return parts


def _members(found: Named) -> Iterator[tuple[str, Named]]:
    """Yield the public methods of a class, then those of its bases in this package, nearest first, each name once."""
    seen, classes = set(), [found]
    while classes:
        each = classes.pop(0)
        assert isinstance(each.node, ast.ClassDef)
        bases = [ast.unparse(base) for base in each.node.bases]
        for node in each.node.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in seen:
                about = ast.get_docstring(node) or ""
                documented = about or _is(node, "property") or "Protocol" in bases
                if node.name == "__init__" or (documented and not node.name.startswith("_")) or node.name == "__call__":
                    seen.add(node.name)
                    yield node.name, Named(node.name, each.module, node, about)
        parents = (each.module.base(base) for base in each.node.bases)
        classes += [parent for parent in parents if parent is not None and isinstance(parent.node, ast.ClassDef)]


def _private(node: ast.AnnAssign) -> bool:
    return isinstance(node.target, ast.Name) and node.target.id.startswith("_")


def _fields(node: ast.ClassDef) -> list[tuple[str, str]]:
    """Return the attributes of a class that have a docstring of their own below them."""
    pairs = zip(node.body, [*node.body[1:], None], strict=True)
    return [
        (ast.unparse(each), _text_of(after))
        for each, after in pairs
        if isinstance(each, ast.AnnAssign | ast.Assign) and _text_of(after)
    ]


def signature(node: Function, name: str, drop: int = 0) -> str:
    """Return `name(arguments) -> result` on one line, or an argument a line where it is long.

    Args:
        drop: so many arguments are left out at the front (`self`).
    """
    given = node.args
    words: list[str] = []
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    for place, (each, default) in enumerate(zip(positional, defaults, strict=True)):
        if place >= drop:
            words.append(_argument(each, default))
        if given.posonlyargs and place == len(given.posonlyargs) - 1 and words:
            words.append("/")
    if given.vararg:
        words.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        words.append("*")
    words += [_argument(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        words.append(f"**{_argument(given.kwarg, None)}")
    result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return _wrapped(prefix + name, words, result)


def _argument(node: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(node.annotation)}" if node.annotation else ""
    if default is None:
        return node.arg + kind
    return f"{node.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def _wrapped(name: str, words: list[str], result: str) -> str:
    line = f"{name}({', '.join(words)}){result}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){result}"


def code(text: str) -> str:
    """Return `text` as a block of Python."""
    return f"```python\n{text}\n```"


def prose(about: str) -> str:
    """Return a docstring as Markdown: sections as lists, examples as code."""
    out: list[str] = []
    section = ""
    for block in _blocks(about):
        if found := _SECTION.match(block[0]):
            section, body = found[1], _dedented(block[1:])
            out.append(code("\n".join(body)) if section == "Example" else f"**{section}**\n\n{_entries(body)}")
        elif block[0].startswith("    "):
            out.append("```\n" + "\n".join(_dedented(block)) + "\n```")
        else:
            out.append("\n".join(block))
    return "\n\n".join(out)


def _blocks(about: str) -> Iterator[list[str]]:
    """Yield paragraphs; a section keeps everything that is indented below it."""
    block: list[str] = []
    for line in [*about.splitlines(), ""]:
        inside = bool(block) and (_SECTION.match(block[0]) is not None or block[0].startswith("    "))
        if inside and (not line or line.startswith(" ")):
            block.append(line)
        elif not line or _SECTION.match(line) or inside:
            if block:
                yield block
            block = [line] if line else []
        else:
            block.append(line)
    if block:
        yield block


def _dedented(lines: list[str]) -> list[str]:
    kept = [line for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in kept), default=0)
    text = "\n".join(line[indent:] for line in lines).strip("\n")
    return text.splitlines()


def _entries(lines: list[str]) -> str:
    """Return `name: text` entries as a list; text that is none stays a paragraph."""
    out: list[str] = []
    for line in lines:
        if entry := _ENTRY.match(line):
            out.append(f"- `{entry[1]}`: {entry[2]}")
        elif line.startswith(" ") and out:
            out.append(f"  {line.strip()}")
        else:
            out.append(line)
    return "\n".join(out)


def pages() -> dict[str, str]:
    """Return every file of docs/api by name, with its text."""
    files = {name: f"{name.removeprefix(f'{PACKAGE}.')}.md" for name in MODULES}
    made = {files[name]: page(name, files) for name in MODULES}
    lines = [f"- [{name}]({file}): {_first(Module(name).about)}" for name, file in files.items()]
    made_by = "Made from the docstrings by `python docs/make_api.py`; what is not here may change at any time."
    return {"README.md": "\n\n".join(["# Public names", made_by, "\n".join(lines)]) + "\n", **made}


def _first(about: str) -> str:
    """Return the first paragraph on one line."""
    return " ".join(about.split("\n\n")[0].split())


def main() -> None:
    """Write the pages, and remove those of modules that are not public any more."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
