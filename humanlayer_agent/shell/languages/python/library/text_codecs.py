"""The texts that functions of the standard library make of texts: base64, codecs, shlex, textwrap."""

import base64
import binascii
import codecs
import inspect
import shlex
import textwrap
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import results
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.values import EMPTY, PLAIN, Const, Value, const, only_texts

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


_CODECS: dict[str, Callable[[bytes], bytes | str]] = {
    "hex": binascii.unhexlify, "hexcodec": binascii.unhexlify, "base64": base64.b64decode,
    "base64codec": base64.b64decode, "utf8": bytes,
}  # fmt: skip


def _hidden(engine: "Engine", args: Args) -> Value:
    """What is unpacked or decoded here can't be told."""
    engine.decodes = engine.decodes or engine.line or 1
    return PLAIN


def _decoded(change: Callable[[bytes], bytes | str], *, hides: bool = True) -> Special:
    def result(engine: "Engine", args: Args) -> Value:
        out: Value = EMPTY
        for atom in results.first(args):
            raw = (
                atom.encode("utf-8", "surrogateescape")
                if isinstance(atom, str)
                else atom.value
                if isinstance(atom, Const)
                else None
            )
            if not isinstance(raw, bytes) or len(raw) > 100_000:
                return _hidden(engine, args) if hides else PLAIN
            try:
                out |= const(change(raw))
            except (ValueError, binascii.Error):
                return _hidden(engine, args) if hides else PLAIN
        return out or PLAIN

    return result


def _codec(engine: "Engine", args: Args) -> Value:
    """codecs.decode, codecs.encode: rot13, hex and base64 are ways to hide a text."""
    encodings = only_texts(args.at(1, "encoding") or const("utf-8"))
    if encodings is None or len(encodings) != 1:
        return PLAIN
    name = encodings[0].lower().replace("-", "").replace("_", "")
    if name == "rot13":
        known = only_texts(results.first(args))
        return frozenset(codecs.decode(t, "rot13") for t in known) if known else PLAIN
    change = _CODECS.get(name)
    return _decoded(change, hides=name != "utf8")(engine, args) if change is not None else PLAIN


def _text(change: Callable[[str], str]) -> Special:
    def result(engine: "Engine", args: Args) -> Value:
        known = only_texts(results.first(args))
        return EMPTY.union(*(const(change(t)) for t in known)) if known and len(args.positional) < 2 else PLAIN

    return result


def _shell_split(engine: "Engine", args: Args) -> Value:
    known = only_texts(results.first(args))
    if known is None or len(known) != 1:
        return results.listed(engine, args, PLAIN)
    try:
        words = shlex.split(known[0])
    except ValueError:
        return results.listed(engine, args, PLAIN)
    made = engine.container(args.node, "list")
    engine.fill(made, [const(word) for word in words])
    return frozenset({made})


def _shell_join(engine: "Engine", args: Args) -> Value:
    parts, rest = containers.sequence(engine, results.first(args))
    known = [only_texts(p) for p in parts]
    if rest is not None or not all(k is not None and len(k) == 1 for k in known):
        return PLAIN
    return const(shlex.join(k[0] for k in known if k))


_DECODE: dict[str, Callable[[bytes], bytes | str]] = {
    "base64.b64decode": base64.b64decode, "base64.standard_b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode, "base64.decodebytes": base64.decodebytes,
    "base64.b32decode": base64.b32decode, "base64.b16decode": base64.b16decode, "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode, "base64.b64encode": base64.b64encode,
    "base64.standard_b64encode": base64.b64encode, "base64.urlsafe_b64encode": base64.urlsafe_b64encode,
    "binascii.unhexlify": binascii.unhexlify, "binascii.a2b_hex": binascii.unhexlify,
    "binascii.a2b_base64": binascii.a2b_base64, "binascii.hexlify": binascii.hexlify,
    "binascii.b2a_hex": binascii.hexlify,
}  # fmt: skip


_HIDES_NOTHING = ("encode", ".hexlify", ".b2a_hex")
RESULTS: dict[str, Special] = {
    "codecs.decode": _codec, "codecs.encode": _codec, "urllib.parse.unquote": _text(urllib.parse.unquote),
    "urllib.parse.unquote_plus": _text(urllib.parse.unquote_plus), "urllib.parse.quote": _text(urllib.parse.quote),
    "textwrap.dedent": _text(textwrap.dedent), "inspect.cleandoc": _text(inspect.cleandoc),
    "shlex.quote": _text(shlex.quote), "shlex.split": _shell_split, "shlex.join": _shell_join,
    **{name: _decoded(change, hides=not name.endswith(_HIDES_NOTHING)) for name, change in _DECODE.items()},
    **dict.fromkeys(("zlib.decompress", "gzip.decompress", "bz2.decompress", "lzma.decompress"), _hidden),
}  # fmt: skip
