"""`require` and `import`: modules of node, files of the project, packages; and what a module exports."""

import posixpath
from collections.abc import Sequence

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.javascript import assignment_targets, member_access
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    Foreign,
    Here,
    Native,
    Value,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

ROLE = "module"
"""Role of the acts that load a file as node looks for it: see `module_files`."""


def load(evaluator: Evaluator, name: Value, how: str) -> Value:
    """The module whose name is `name`. `how`: "require" or "import", which look for files differently."""
    out: Value = EMPTY
    for atom in name:
        if isinstance(atom, str):
            out |= _load(evaluator, atom, how)
        elif isinstance(atom, Here):
            out |= _file(evaluator, atom.path, how)
        else:
            evaluator.doubt("loads a module whose name is not known")
            out |= DATA
    if not name:
        evaluator.doubt("loads a module whose name is not known")
    return out


def _load(evaluator: Evaluator, name: str, how: str) -> Value:
    plain = name.removeprefix("node:")
    known = evaluator.tables.modules.get(plain)
    if known is not None and (plain != "test" or name.startswith("node:")):
        return frozenset({Native(known)})
    if name.startswith("file://"):
        return _file(evaluator, name.removeprefix("file://"), how)
    if name.startswith(("/", "./", "../")) or name in (".", ".."):
        base = posixpath.dirname(evaluator.path) if evaluator.path else "."
        return _file(evaluator, posixpath.join(base, name), how)
    what = "which nobody here follows" if name.startswith("node:") else "which nobody here has read"
    evaluator.doubt(f"loads {name[:80]}, {what}")
    return DATA


def _file(evaluator: Evaluator, path: str, how: str) -> Value:
    if "%" in path or "?" in path or "#" in path:
        evaluator.doubt("loads a module whose name is written with escapes")
    elif path.endswith(".node"):
        evaluator.doubt(f"loads {path[-80:]}, which is machine code")
    elif path.endswith(".json"):
        evaluator.act("read", frozenset({path}), how)
        return DATA
    else:
        evaluator.note(Act("execute", (Text.of(path),), ROLE, how, evaluator.line))
    return DATA | {Foreign("")}


def bare(evaluator: Evaluator, node: Node) -> Value:
    """`import` where it is not called."""
    evaluator.doubt("uses import in a way that is not read here")
    return DATA


def dynamic(evaluator: Evaluator, values: Sequence[Value]) -> Value:
    """`import(name)`."""
    return load(evaluator, values[0] if values else EMPTY, "import")


def statement(evaluator: Evaluator, node: Node) -> None:
    """`import a, {b as c}, * as d from "x"`."""
    if "type" in node.tokens:
        return
    source = node.field("source")
    if source is None or any(child.type not in ("import_clause", "string", "comment") for child in node.children):
        evaluator.doubt("an import that is not read here")
        return
    found = load(evaluator, _name(source), "import")
    for clause in node.children:
        for each in clause.children if clause.type == "import_clause" else ():
            if each.type == "identifier":
                native = frozenset(a for a in found if isinstance(a, Native))
                value = member_access.get(evaluator, found, "default") if native else found
                assignment_targets.assign(evaluator, each, value, declares=True)
            elif each.type == "namespace_import":
                assignment_targets.assign(evaluator, each.children[0], found, declares=True)
            elif each.type == "named_imports":
                _named(evaluator, each, found)


def _named(evaluator: Evaluator, node: Node, found: Value) -> None:
    for each in node.children:
        if each.type == "comment" or "type" in each.tokens:
            continue
        name = each.fields["name"]
        value = member_access.get(evaluator, found, _plain(name))
        assignment_targets.assign(evaluator, each.field("alias") or name, value, declares=True)


def _plain(node: Node) -> str:
    return node.text.strip("'\"")


def _name(node: Node) -> Value:
    from humanlayer_agent.shell.languages.javascript.expression_values import text_of

    return text_of(node)


# ---- exports ----------------------------------------------------------------------------------------


def exported(evaluator: Evaluator, value: Value) -> None:
    """Other modules get `value`."""
    evaluator.hand_over(value, "other modules")
    evaluator.add(evaluator.member("exports"), frozenset(a for a in value if not isinstance(a, Native)))


def export(evaluator: Evaluator, node: Node) -> None:
    """`export ...`."""
    from humanlayer_agent.shell.languages.javascript import control_statements, expression_values
    from humanlayer_agent.shell.languages.javascript.lexical_scopes import bound_names

    source = node.field("source")
    if "type" in node.tokens or any(child.type == "decorator" for child in node.children):
        if "type" not in node.tokens:
            evaluator.doubt("a decorator")
        return
    if source is not None:
        evaluator.hand_over(load(evaluator, _name(source), "import"), "other modules")
    elif (declaration := node.field("declaration")) is not None:
        control_statements.read(evaluator, declaration)
        names = [declaration.field("name"), *(each.field("name") for each in declaration.children)]
        for name in names:
            for one in bound_names(name) if name is not None and name.type != "type_identifier" else ():
                exported(evaluator, expression_values.named(evaluator, one, asked=True))
    elif (value := node.field("value")) is not None:
        exported(evaluator, expression_values.read(evaluator, value))
    else:
        for clause in node.children:
            for each in clause.children if clause.type == "export_clause" else ():
                name = each.field("name")
                if name is not None and "type" not in each.tokens:
                    exported(evaluator, expression_values.named(evaluator, name.text, asked=True))
        if not any(child.type == "export_clause" for child in node.children):
            evaluator.doubt("an export that is not read here")
