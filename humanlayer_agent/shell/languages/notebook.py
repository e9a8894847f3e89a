"""Jupyter notebooks: their code cells, one after the other, are a Python program with lines for the shell in between.

The format is nbformat 4 (and 3); lines that begin with `!` and `%` are IPython's. Cells whose magic is not known here
are a doubt, and so is any kernel but Python's.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from humanlayer_agent.shell.languages import read as read_code
from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Found, Text

MAX_CELLS = 500
_KERNELS = frozenset({"python3", "python", "python2", ""})
_LANGUAGES = frozenset({"python", "python3", "ipython", ""})
_MAGIC = re.compile(r"(\s*)(?:[A-Za-z_][\w, ]*=\s*)?(!!?|%{1,2})(.*)", re.ASCII | re.DOTALL)
_HELP = re.compile(r"\s*\??\??[%\w.]+\?{0,2}\s*", re.ASCII)
_PLAIN = frozenset(
    str.split(
        "matplotlib autoreload load_ext reload_ext pylab precision pprint whos who who_ls pwd colors xmode lsmagic"
    )
)
_WORDS = re.compile(r"[\w .,=-]*", re.ASCII)
_INLINE = re.compile(r"InlineBackend\.[a-z_]+ *= *[\w'\" ,\[\]-]*", re.ASCII)
_TIMED = frozenset({"time", "timeit"})
_ALIASES = frozenset(str.split("cat cp ldir less lf lk ll ls lx man mkdir more mv rm rmdir"))
_AUTOMATIC = re.compile(rf"\s*(?:{'|'.join(sorted(_ALIASES))}|cd|pip|conda|run|env|sx|system)\s+[^=\s].*", re.ASCII)
"""What IPython takes for a magic without its sign, where it is the only line of a cell."""
_SHELLS = {"bash": "bash", "sh": "sh"}
_INSIDE = re.compile(
    r"\b(?:get_ipython|InteractiveShell|run_\w+_magic|run_cell\w*|system_raw|getoutput|magic|_ih|_sh"
    r"|globals|locals|vars|__main__|__dict__|__builtins__|builtins|modules)\b"
)
"""Names that lead to IPython itself, which is there without an import."""
_PRELUDE = "from IPython import get_ipython\n"
"""What every cell finds, so that nothing reaches it under another name unseen."""
_SAFE_EXTENSIONS = frozenset({"autoreload", "line_profiler", "memory_profiler", "tensorboard", "dotenv"})


def whole(text: str, path: str | None, files: Callable[[str], Found] | None) -> Behaviour | None:
    """What running every cell of a notebook does; None where it is no notebook."""
    cells = _cells(text)
    if cells is None:
        return None
    out = Behaviour()
    if len(cells) > MAX_CELLS or not _python(text):
        return None
    program: list[str] = []
    for n, cell in enumerate(cells, 1):
        program += _cell(cell, n, out)
    source = "\n".join(program) + "\n"
    if _INSIDE.search(source):
        return None
    behaviour = read_code("python", _PRELUDE + source, path=path)
    if behaviour is None or behaviour.opaque:
        return None
    behaviour.acts = [replace(act, line=max(act.line - 1, 0)) for act in behaviour.acts if act.line != 1]
    behaviour.acts += out.acts
    behaviour.directories += out.directories
    for doubt in out.doubts:
        behaviour.doubt(doubt)
    if path is not None:
        behaviour.directories.insert(0, Text.of(posixpath.dirname(path)))  # some runners start the kernel there
    return behaviour


def _cells(text: str) -> list[str] | None:
    """The source of the code cells."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    sheets = content.get("worksheets")
    cells = content.get("cells")
    if cells is None and isinstance(sheets, list):
        cells = [c for sheet in sheets if isinstance(sheet, dict) for c in _list(sheet.get("cells"))]
    if not isinstance(cells, list):
        return None
    out: list[str] = []
    for cell in cells:
        if not isinstance(cell, dict):
            return None
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            return None
        if cell.get("cell_type") == "code":
            out.append(source)
    return out


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [None]


def _python(text: str) -> bool:
    metadata = json.loads(text).get("metadata", {})
    if not isinstance(metadata, dict):
        return False
    kernel, language = metadata.get("kernelspec", {}), metadata.get("language_info", {})
    if not isinstance(kernel, dict) or not isinstance(language, dict):
        return False
    names = (kernel.get("name", ""), language.get("name", ""), kernel.get("language", ""))
    if not all(isinstance(name, str) for name in names):
        return False
    return names[0] in _KERNELS and names[1] in _LANGUAGES and names[2] in _LANGUAGES


# ---- cells ------------------------------------------------------------------------------------------


def _cell(source: str, number: int, out: Behaviour) -> list[str]:
    """The Python lines of a cell; what its other lines do is added to `out`."""
    first = next((line for line in source.split("\n") if line.strip()), "")
    if first.lstrip().startswith("%%"):
        name, _, rest = first.strip()[2:].partition(" ")
        return _cell_magic(name, rest, source.partition(first)[2].lstrip("\n"), number, out)
    if len(source.strip().split("\n")) == 1 and _AUTOMATIC.fullmatch(source.strip()):
        source = "%" + source.strip()
    return _lines(source, number, out)


def _cell_magic(name: str, rest: str, body: str, number: int, out: Behaviour) -> list[str]:
    if name in _SHELLS and not rest.strip():
        _shell(out, body, name, number, whole=True)
    elif name == "writefile" and re.fullmatch(r"[\w./-]+", rest.strip(), re.ASCII):
        target = Text.of(rest.strip())
        out.acts.append(Act("write", (target,), origin=f"cell {number}: %%writefile"))
        out.files.append((target, body))
    elif name in ("markdown", "html", "latex", "svg", "javascript", "js"):
        pass
    elif name in _TIMED and not rest.strip().startswith("-"):
        return [*_lines(rest, number, out), *_lines(body, number, out)]
    elif name == "capture" and _WORDS.fullmatch(rest):
        return _lines(body, number, out)
    else:
        out.doubt(f"cell {number}: %%{name}")
    return []


def _lines(source: str, number: int, out: Behaviour) -> list[str]:
    """Lines of Python, those for IPython replaced."""
    lines: list[str] = []
    for line in _joined(source):
        match = _MAGIC.fullmatch(line)
        if match is None or (match[2] == "%" and not re.match(r"[A-Za-z]", match[3])):
            stripped = line.strip()
            is_help = stripped.startswith("?") or (stripped.endswith("?") and _HELP.fullmatch(stripped))
            lines.append("" if is_help and stripped else line)
            continue
        lines += [match[1] + each for each in _special(match[2], match[3], number, out)]
    return lines


def _joined(source: str) -> Iterator[str]:
    """The lines of a cell; a line for IPython that ends in a backslash goes on."""
    held = ""
    for line in source.split("\n"):
        held += line
        if line.endswith("\\") and _MAGIC.fullmatch(held):
            held = held[:-1]
            continue
        yield held
        held = ""
    if held:
        yield held


def _special(sign: str, rest: str, number: int, out: Behaviour) -> list[str]:
    """The Python that stands for a line of IPython's."""
    if sign.startswith("!"):
        _shell(out, rest, "sh", number)
        return ["pass"]
    name, _, words = rest.partition(" ")
    words = words.strip()
    where = f"cell {number}: %{name}"
    if name in ("pip", "conda", "mamba", "uv") or name in _ALIASES:
        _shell(out, rest, "sh", number)
    elif name == "cd" and re.fullmatch(r"[\w./~][\w./-]*", words, re.ASCII):
        out.directories.append(Text.of(words))
    elif name == "run" and re.fullmatch(r"[\w./-]+\.py", words, re.ASCII):
        out.acts.append(Act("execute", (Text.of(words),), "script", where))
    elif name in ("env", "set_env") and re.fullmatch(r"\w+[= ][^{}$]*", words, re.ASCII):
        variable, value = re.split(r"[= ]", words, maxsplit=1)
        out.acts.append(Act("environment", (Text.of(variable), Text.of(value.strip())), "itself", where))
    elif name in ("load_ext", "reload_ext") and words not in _SAFE_EXTENSIONS:
        out.doubt(f"{where} {words}")
    elif name in _TIMED and not words.startswith(("-", "!", "%")):
        return [words or "pass"]
    elif name == "config" and _INLINE.fullmatch(words):
        pass
    elif name not in _PLAIN or not _WORDS.fullmatch(words):
        out.doubt(where)
    return ["pass"]


def _shell(out: Behaviour, text: str, shell: str, number: int, *, whole: bool = False) -> None:
    """A text for a shell. In a line of its own, IPython puts values of Python's in the place of `{x}` and `$x`."""
    operand = Text.of(text) if whole or not any(c in text for c in "{}$") else Text()
    origin = f"cell {number}: {'%%' + shell if whole else '!'}"
    if shell == "bash":
        out.acts.append(Act("program", (Text.of("bash"), Text.of("-c"), operand), origin=origin))
    else:
        out.acts.append(Act("shell", (operand,), origin=origin))
