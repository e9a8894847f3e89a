"""Syntax trees in tests: whether two are equal, one as a short text, and the names of the commands in it."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import zip_longest

from humanlayer_agent.shell.syntax.tree import (
    Arith,
    ArithCommand,
    ArrayLit,
    Assign,
    Case,
    Function,
    Group,
    If,
    Lit,
    Loop,
    Node,
    Param,
    Part,
    Pipeline,
    ProcSub,
    Redirect,
    Script,
    Sequence,
    Simple,
    Sub,
    Test,
    Word,
    children,
    simples,
    words_of,
)


def difference(left: object, right: object, path: str = "") -> str | None:
    """Where two syntax trees differ first, or None where they are equal in every field, spans included."""
    if type(left) is not type(right):
        return f"{path}: {left!r} against {right!r}"
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return f"{path}: {len(left)} against {len(right)} items"
        pairs = [(f"{path}[{index}]", a, b) for index, (a, b) in enumerate(zip(left, right, strict=True))]
    elif is_dataclass(left) and not isinstance(left, type):
        names = [field.name for field in fields(left)]
        pairs = [(f"{path}.{name}", getattr(left, name), getattr(right, name)) for name in names]
    else:
        return None if left == right else f"{path}: {left!r} against {right!r}"
    return next((found for where, a, b in pairs if (found := difference(a, b, where))), None)


def command_names(script: Script) -> list[str | None]:
    """The text of the first word of every simple command that has one, at any depth."""
    return [command.words[0].text for command in simples(script) if command.words]


def outline(node: object) -> str:
    """A tree as one line.

    Simple commands are in brackets; `'quoted'` is quoted text, `*` marks a pattern and `~` a dynamic word.

    Example:
        >>> from humanlayer_agent.shell.syntax.parse import parse
        >>> outline(parse("ls -l 'a b' | wc > f").script)
        "PIPE([ls -l 'a b'] | [wc >f])"
    """
    match node:
        case None:
            return ""
        case Script():
            return outline(node.body)
        case Simple():
            return f"[{_join(' ', [*node.assigns, *node.words, *node.redirects])}]"
        case Pipeline():
            return f"PIPE({_listed(node.parts, node.ops)})"
        case Sequence():
            return f"{'NOT' if node.negated else 'SEQ'}({_listed(node.parts, node.ops)})"
        case Group():
            return f"{'SUB' if node.subshell else 'GROUP'}({outline(node.body)}){_redirects(node)}"
        case If():
            branches = [f"{outline(condition)} -> {outline(body)}" for condition, body in node.branches]
            other = [f"else {outline(node.orelse)}"] if node.orelse else []
            return f"IF({'; '.join([*branches, *other])}){_redirects(node)}"
        case Loop():
            words = [] if node.words is None else ["in", *map(outline, node.words)]
            head = [outline(part) for part in (node.name, node.head, node.condition) if part is not None]
            return f"{node.kind.upper()}({' '.join([*head, *words])} -> {outline(node.body)}){_redirects(node)}"
        case Case():
            arms = [f"{_join('|', arm.patterns)} -> {outline(arm.body)}".rstrip() for arm in node.arms]
            return f"CASE({outline(node.subject)}: {'; '.join(arms)}){_redirects(node)}"
        case Function():
            return f"FUNCTION({outline(node.name)} -> {outline(node.body)}){_redirects(node)}"
        case Test():
            return f"TEST({_join(' ', node.words)}){_redirects(node)}"
        case ArithCommand():
            return f"{outline(node.word)}{_redirects(node)}"
        case _:
            return _outline_word(node)


def _outline_word(node: object) -> str:
    match node:
        case Word():
            text = "".join(map(outline, node.parts)) or outline(Lit(node.text or "", node.quoted))
            return text + "*" * node.pattern + "~" * node.dynamic
        case Lit():
            return f"'{node.text}'" if node.quoted else node.text
        case Param():
            index = "" if node.index is None else f"[{node.index}]"
            arg = "" if node.arg is None else outline(node.arg)
            hidden = "".join(f"<{outline(part)}>" for part in node.index_parts)
            inner = f"${{{node.name}{index}{hidden}{' ' if node.op else ''}{node.op}{' ' if node.arg else ''}{arg}}}"
            return f'"{inner}"' if node.quoted else inner
        case Sub():
            inner = f"$({outline(node.script)})"
            return f'"{inner}"' if node.quoted else inner
        case ProcSub():
            return f"{node.direction}({outline(node.script)})"
        case Arith():
            return f"{node.raw}{''.join(f'<{outline(part)}>' for part in node.parts)}"
        case ArrayLit():
            return f"({_join(' ', node.words)})"
        case Assign():
            index = "" if node.index is None else f"[{node.index}]"
            hidden = "".join(f"<{outline(part)}>" for part in node.index_parts)
            return f"{node.name}{index}{hidden}{'+' * node.append}={outline(node.value)}"
        case Redirect():
            body = "" if node.body is None else f"<<{outline(node.body)}>>"
            return f"{node.fd}{node.op}{outline(node.target)}{body}"
    raise TypeError(f"no outline of {node!r}")


def _listed(parts: Iterable[object], ops: list[str]) -> str:
    return " ".join(f"{outline(part)} {op}".strip() for part, op in zip_longest(parts, ops, fillvalue=""))


def _join(separator: str, nodes: Iterable[object]) -> str:
    return separator.join(map(outline, nodes))


def _redirects(node: object) -> str:
    return "".join(f" {outline(redirect)}" for redirect in getattr(node, "redirects", ()))


def every_word(script: Script) -> Iterator[Word]:
    """Every word of `script`, at any depth: also those of substitutions, parameter arguments and arrays."""
    if script.body is not None:
        yield from _node_words(script.body)


def _node_words(node: Node) -> Iterator[Word]:
    words = list(words_of(node))
    if isinstance(node, Simple):
        for assign in node.assigns:
            yield from _part_words(assign.index_parts)
    for word in words:
        yield word
        yield from _part_words(word.parts)
    for child in children(node):
        yield from _node_words(child)


def _part_words(parts: Iterable[Part]) -> Iterator[Word]:
    for part in parts:
        match part:
            case Sub() | ProcSub():
                yield from every_word(part.script)
            case Arith():
                yield from _part_words(part.parts)
            case Param():
                yield from _part_words(part.index_parts)
                if part.arg is not None:
                    yield part.arg
                    yield from _part_words(part.arg.parts)
            case ArrayLit():
                for word in part.words:
                    yield word
                    yield from _part_words(word.parts)
            case Lit():
                pass
