"""Texts that have other files put into them: sources of C, documents, diagrams, and manual pages.

`#include "/etc/passwd"` shows that file in what the compiler prints, and `.. include:: .env` in the page. What such a
text names is read; a name that is put together, and requests that nobody knows here, are doubts.
"""

import posixpath
import re
from collections.abc import Callable, Iterator

from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Act, Behaviour, Found, Text

Files = Callable[[str], Found] | None
MAX_INCLUDED = 24
"""Most files that one text is followed to."""
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*\r?\n")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(
    r"^[ \t\f\v]*(?:#|%:|\?\?=)[ \t\f\v]*(include|include_next|import|embed)\b[ \t]*([^\r\n]*)", re.M
)
"""GCC's manual of the preprocessor, "Include Syntax"; digraphs and trigraphs stand for `#`."""
_NAMED = re.compile(r'"([^"]*)"|<([^>]*)>')
_FORTRAN = re.compile(r"^[ \t]*include[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\")", re.M | re.I)
_ASSEMBLY = re.compile(r"\basm|__asm|\.\s*(?:incbin|include|macro|irpc?|altmacro)\b|##|%:%:")
"""Text for the assembler, which has `.incbin` of its own, and what it, or its name, may be put together by."""
_IN_DOCUMENTS = re.compile(
    r"""\.\.[ \t]+(?:[\w|+ -]*\|[ \t]+)?(?:literal)?include[ \t]*::\s*(?P<rst>[^\n]*)          # reStructuredText
    |:(?:file|url)[ \t]*:\s*(?P<option>[^\n]*)                                                  # raw, csv-table
    |\binclude::(?P<adoc>[^\n\[]*)\[                                                            # AsciiDoc
    |^[ \t]*\#\+(?:include|setupfile)[ \t]*:[ \t]*(?P<org>[^\n]*)                               # Org
    |\\(?:input|include|subfile|import|lstinputlisting|verbatiminput|usepackage|VerbatimInput)\b
      [ \t]*(?:\[[^\]\n]*\])?[ \t]*\{?(?P<tex>[^}\s]*)                                          # LaTeX
    """,
    re.VERBOSE | re.M | re.I,
)
_PUT_TOGETHER = re.compile(
    r"\\(?:def|edef|gdef|let|csname|catcode|newcommand|renewcommand|providecommand|@@input|openin|read)\b"
    r"|^:(?:data-uri|stylesheet|stylesdir|docinfo\w*|linkcss!?|includedir)\b"
    r"|^[ \t]*#\+(?:macro|begin_src[^\n]*:(?:file|results))",
    re.M | re.I,
)
"""What makes names, or brings files by a setting."""
_WORDS_OF_DIAGRAMS = "|".join(
    str.split(
        """
        participant actor boundary control entity database collections queue class interface enum abstract package node
        folder frame cloud component rectangle usecase object state note end alt else opt loop par break critical group
        activate deactivate destroy return autonumber title caption box start stop if endif then elseif repeat while
        endwhile fork partition
        """
    )
)
_SAID = r"[\w .,;:()\[\]\"#?+*=/-]*"
_LINES_OF_DIAGRAMS = re.compile(
    rf"""(?![^\n]*\[\[)[ \t]*(?:
      '[\w .,;:()-]*                                                                  # a comment
    | (?:{_WORDS_OF_DIAGRAMS})\b{_SAID}(?:<<[\w ]+>>)?[ ]*\{{?                        # what is drawn
    | (?:[\w.]+|"[\w .]+"|\[[\w .]+\]|\(\w[\w .]*\)|\[\*\])[ ]*                       # what is between two of them
      (?:<\||<<|<|\*|o)?[-.=]+(?:\[\#\w+\]|left|right|up|down)?[-.=]*(?:\|>|>>|>|\*|o)?[ ]*
      (?:[\w.]+|"[\w .]+"|\[[\w .]+\]|\(\w[\w .]*\)|\[\*\])(?:[ ]*:{_SAID})?
    | [+\#-][ ]*[\w .,:()\[\]]*                                                       # a member of a class
    | \}}
    )?[ \t]*""",
    re.VERBOSE | re.ASCII,
)
"""Lines of PlantUML that draw something and do nothing else; what is before and after `@startuml` is none of them.

Its preprocessor changes lines before it reads them, and has commands in many spellings that bring files and addresses:
https://plantuml.com/preprocessing
"""
_REQUESTS = frozenset(
    str.split(
        """
        TH SH SS PP P LP TP IP HP TQ RS RE B I BR BI IR RB RI IB SM SB EX EE UR UE MT ME SY YS OP nf fi br sp ad na nh
        hy ft in ti ta ne bp ce ns rs it fam PD DT AT UC
        Dd Dt Os Nm Nd Sh Ss Pp Op Oo Oc Fl Ar Bl El It Xr Pa Em Sy Li Dl Cm Ic Ev Va Vt Fn Fo Fc Fa Ft In Dv Er Ql Qq
        Sq Dq Pq Aq Bq Brq Bd Ed Ns No Pf Sm Bx Ox Nx Fx Ux At An Aq Ap Lk Mt Rv Ex St Ta Tn D1 Bf Ef Bk Ek
        """
    )
)
"""Requests and macros of man(7) and mdoc(7) that bring nothing from elsewhere."""


def source(text: str, path: str | None, files: Files) -> Behaviour:
    """What a compiler reads for a source of C, C++, Fortran or assembly."""
    behaviour, seen, ahead = Behaviour(), {path}, [(text, path)]
    while ahead:
        here, place = ahead.pop()
        plain = _COMMENT.sub(" ", _SPLICE.sub("", here))
        if _ASSEMBLY.search(plain):
            behaviour.doubt("text for an assembler, or a name that is put together, may bring any file")
        for name, quoted in _included(plain):
            if name is None:
                behaviour.doubt("an #include of a name that is not known")
                continue
            target = _beside(name, place)
            there = files(posixpath.normpath(target)) if files is not None and target is not None else Found(None)
            if name.startswith("/") or (quoted and there != NOT_THERE):
                behaviour.acts.append(Act("read", (Text.of(target or name),), "option", "#include"))
            elif ".." in name.split("/"):
                behaviour.doubt(f"#include of {name}, which is looked for in several folders")
            if quoted and target not in seen:
                seen.add(target)
                ahead += [(each, target) for each in there.texts or () if not there.project]
                if there.texts is None and not there.project and files is not None:
                    behaviour.doubt(f"an #include of {name}, which nobody has read")
        if len(seen) > MAX_INCLUDED:
            behaviour.doubt("too many files are included")
            break
    return behaviour


def document(text: str, path: str | None, files: Files) -> Behaviour:
    """What a converter reads for a document in reStructuredText, AsciiDoc, Org or LaTeX."""
    behaviour, seen, ahead = Behaviour(), {path}, [(text, path)]
    while ahead:
        here, place = ahead.pop()
        if _PUT_TOGETHER.search(here):
            behaviour.doubt("a document that defines names, or settings that bring files")
        for found in _IN_DOCUMENTS.finditer(here):
            name = (found[found.lastgroup or 0] or "").strip().strip("\"'")
            if found.lastgroup == "org":
                name = name.split('"')[0].split(" ")[0]
            if not name or any(each in name for each in "{}\\|$"):
                behaviour.doubt("a document that includes a file whose name is not known")
                continue
            if name.startswith("<") or "://" in name:
                continue  # what the converter brings itself, and addresses: `url` is asked about where it is followed
            for target in dict.fromkeys((_beside(name, place) or name, *_with_ending(name, place, found.lastgroup))):
                behaviour.acts.append(Act("read", (Text.of(target),), "option", "include"))
                if files is not None and target not in seen:
                    seen.add(target)
                    more = files(posixpath.normpath(target))
                    ahead += [(each, target) for each in more.texts or () if not more.project]
                    if more.texts is None and not more.project:
                        behaviour.doubt(f"a document that includes {name}, which nobody has read")
        if len(seen) > MAX_INCLUDED:
            behaviour.doubt("too many files are included")
            break
    return behaviour


def diagram(text: str, path: str | None, files: Files) -> Behaviour:
    """What PlantUML does for a diagram: nothing but draw it, where each line is one that only draws; else unknown."""
    behaviour = Behaviour()
    first, *lines = text.strip(" \t\r\n").split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    if first.removesuffix("\r") != "@startuml" or lines[-1:] != ["@enduml"]:
        behaviour.doubt("a diagram that is not one from @startuml to @enduml")
    else:
        other = next((line for line in lines[:-1] if not _LINES_OF_DIAGRAMS.fullmatch(line)), None)
        if other is not None:
            behaviour.doubt(f"a diagram with a line that may do more than draw: {other.strip()[:40]}")
    behaviour.unread = bool(behaviour.doubts)
    return behaviour


def page(text: str, path: str | None, files: Files) -> Behaviour:
    """What `man` reads for a manual page: nothing else, where it knows each request."""
    behaviour = Behaviour()
    for line in text.splitlines():
        request = re.match(r"[.'][ \t]*([^\s\\\"]*)", line)
        if request is not None and request[1] and request[1] not in _REQUESTS:
            behaviour.doubt(f"a manual page with the request .{request[1]}")
        if re.search(r"\\[VXY!?*nRA]|\\\\", line):
            behaviour.doubt("a manual page with escapes that read variables or talk to the printer")
    return behaviour


def _included(text: str) -> Iterator[tuple[str | None, bool]]:
    """The names that are included, and whether in quotes; None: not known."""
    for found in _DIRECTIVE.finditer(text):
        named = _NAMED.match(found[2])
        yield (None, True) if named is None else (named[1] if named[1] is not None else named[2], named[1] is not None)
    for found in _FORTRAN.finditer(text):
        yield found[1] or found[2] or "", True


def _beside(name: str, path: str | None) -> str | None:
    """The path of what a file at `path` calls `name`; `..` stays where a symbolic link may stand before it."""
    if not name.startswith("/") and path is None:
        return None
    found = posixpath.join(posixpath.dirname(path or "/"), name)
    return found if ".." in name.split("/") else posixpath.normpath(found)


def _with_ending(name: str, path: str | None, form: str | None) -> tuple[str, ...]:
    """LaTeX adds the ending."""
    return (_beside(f"{name}.tex", path) or f"{name}.tex",) if form == "tex" and "." not in name else ()
