"""One-liners of perl, ruby, php and lua that do nothing but print, or edit the text that passes through them.

Only whole programs of a few plain statements are recognised; everything else stays code that nobody has read. Sources:
perlop, perlre, perlrun; the manuals of ruby, php and lua on their literals.
"""

import re
from collections.abc import Sequence

MAX_LENGTH = 2_000
_NUMBER = r"(?:[0-9]{1,15}(?:\.[0-9]{1,15})?)"
_ARITHMETIC = rf"[-( ]{{0,4}}{_NUMBER}(?:[ )]{{0,4}}[-+*/%][ (]{{0,4}}{_NUMBER}){{0,20}}[ )]{{0,4}}"
_SINGLE = r"'[^'\\]*'"
_PLAIN = r'"(?:[^"\\$@#`]|\\[ntr\\"0e])*"'
"""A string in double quotes without anything that is put in: no $, @, # or backtick."""

# Perl. In a string or a pattern only these variables may stand, with nothing behind them that would be a subscript.
_PERL_VARIABLE = r"\$(?:_|[1-9]|&|\.|F\[-?[0-9]{1,3}\])(?![\[{(:\w>-])"
_PERL_STRING = rf'(?:{_SINGLE}|"(?:[^"\\$@]|\\[ntr\\"0e$@]|{_PERL_VARIABLE})*")'
_PERL_VALUE = rf"(?:{_PERL_STRING}|{_PERL_VARIABLE}|{_ARITHMETIC})"
_PERL_PRINT = rf"(?:print|say)(?:\s+(?:STDERR|STDOUT)(?=\s))?(?:\s*{_PERL_VALUE}(?:\s*[,.]\s*{_PERL_VALUE}){{0,20}})?"
_PERL_FLAGS = r"[gims]{0,5}"
_PERL_ATOM = r"(?:[^{d}\\$@()\n]|\\[^\n{d}NpPx]|\\{d}|\$(?=[)|{d}])|\((?:\?(?:[:=!]|<[=!]))?(?![?*])|\))"
_PERL_REPLACEMENT = r"(?:[^{d}\\$@\n]|\\[ntULEul\\./{d}1-9-]|\$(?:[1-9]|&)(?![\[{{(:\w>-]))"
_DELIMITERS = "/|,!%~"


def _perl_regex() -> str:
    """`/x/`, and `m` with another delimiter."""
    plain = _PERL_ATOM.format(d="/")
    others = "|".join(f"m{re.escape(d)}(?:{_PERL_ATOM.format(d=re.escape(d))})*{re.escape(d)}" for d in _DELIMITERS)
    return rf"(?:/{plain}*/|{others}){_PERL_FLAGS}"


def _perl_edit() -> str:
    """`s/a/b/`, `tr/a/b/`, `y/a/b/`."""
    forms = []
    for each in _DELIMITERS:
        d = re.escape(each)
        forms.append(rf"s{d}(?:{_PERL_ATOM.format(d=d)})*{d}(?:{_PERL_REPLACEMENT.format(d=d)})*{d}[gimsr]{{0,6}}")
        forms.append(rf"(?:tr|y){d}[^\\$@{d}\n]*{d}[^\\$@{d}\n]*{d}[cdsr]{{0,4}}")
    return "(?:" + "|".join(forms) + ")"


_PERL_LINES = r"\$\.\s*(?:==|<=?|>=?|!=|%\s*[0-9]{1,6}\s*==)\s*[0-9]{1,9}|[0-9]{1,9}\s*\.\.\s*[0-9]{1,9}|eof"
_PERL_TEST = rf"(?:!\s*)?(?:{_perl_regex()}|{_PERL_LINES})"
_PERL = re.compile(
    rf"\s*(?:{_PERL_PRINT}|{_perl_edit()}|next|last|chomp)(?:\s+(?:if|unless)\s*(?:\(\s*)?{_PERL_TEST}(?:\s*\))?)?\s*",
    re.ASCII,
)

_RUBY_VALUE = rf"(?:{_SINGLE}|{_PLAIN}|{_ARITHMETIC}|RUBY_(?:VERSION|PLATFORM|ENGINE|PATCHLEVEL))"
_RUBY = re.compile(rf"\s*(?:puts|print|p)(?:\s+{_RUBY_VALUE}(?:\s*,\s*{_RUBY_VALUE}){{0,20}})?\s*", re.ASCII)
_PHP_VALUE = rf"(?:{_SINGLE}|{_PLAIN}|{_ARITHMETIC}|PHP_(?:VERSION|OS|EOL|INT_MAX)|phpversion\(\))"
_PHP = re.compile(rf"\s*(?:echo|print)\s*{_PHP_VALUE}(?:\s*[,.]\s*{_PHP_VALUE}){{0,20}}\s*", re.ASCII)
_LUA_VALUE = rf"(?:{_SINGLE}|{_PLAIN}|{_ARITHMETIC}|_VERSION)"
_LUA = re.compile(rf"\s*print\(\s*{_LUA_VALUE}(?:\s*,\s*{_LUA_VALUE}){{0,20}}\s*\)\s*", re.ASCII)

_STATEMENTS = {
    "perl": {"-e": _PERL, "-E": _PERL},
    "ruby": {"-e": _RUBY},
    "php": {"-r": _PHP},
    "lua": {"-e": _LUA},
}
"""By program and option: what one statement may look like."""
_PERL_OPERAND = re.compile(r"[\w./][\w./ -]*", re.ASCII)


def prints_only(program: str, option: str, text: str) -> bool:
    """Whether `text`, given to `program` after `option`, only prints, or edits what it prints."""
    statement = _STATEMENTS.get(program, {}).get(option)
    if statement is None or len(text) > MAX_LENGTH or not text.isascii():
        return False
    i = 0
    while i < len(text):
        match = statement.match(text, i)
        if match is None:
            return not text[i:].strip(" \n;")
        i = match.end()
        if i < len(text) and text[i] != ";":
            return False
        i += 1
    return True


def safe_operands(program: str, operands: Sequence[str | None]) -> bool:
    """Whether `operands` are names of files to perl too: its `-n` and `-p` run what begins or ends with a bar."""
    return program != "perl" or all(o is not None and _PERL_OPERAND.fullmatch(o) for o in operands)
