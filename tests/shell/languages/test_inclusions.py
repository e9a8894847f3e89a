"""Sources, documents and manual pages bring other files: what they name is read, what nobody can tell is a doubt."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.languages import read
from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Found


def brought(language: str, text: str, files: dict[str, str] | None = None) -> tuple[list[str], bool]:
    """What is read for a text at /p/src/a, and whether there is a doubt."""
    known = files or {}
    behaviour = read(
        language, text, path="/p/src/a", files=lambda path: Found((known[path],)) if path in known else NOT_THERE
    )
    assert behaviour is not None
    return [act.operands[0].choices[0] for act in behaviour.acts if act.kind == "read"], bool(behaviour.doubts)


@pytest.mark.parametrize(
    ("text", "paths", "doubt"),
    [
        ("#include <stdio.h>\nint main(void) { return 0; }\n", [], False),
        ('#include "/etc/passwd"\n', ["/etc/passwd"], False),
        (' # /* x */ include /* y */ "/etc/passwd"\n', ["/etc/passwd"], False),
        ('#inc\\\nlude "/etc/passwd"\n', ["/etc/passwd"], False),
        ('%:include "/etc/passwd"\n', ["/etc/passwd"], False),
        ('??=include "/etc/passwd"\n', ["/etc/passwd"], False),
        ("#include </etc/passwd>\n", ["/etc/passwd"], False),
        ('#embed "/etc/passwd"\n', ["/etc/passwd"], False),
        ('#include "a.h"\n', ["/p/src/a.h", "/etc/passwd"], False),
        ('#include "../.env"\n', ["/p/src/../.env"], False),
        ("#include NAME\n", [], True),
        ("#include <../../etc/passwd>\n", [], True),
        ('#include "../../../etc/passwd"\n', [], True),
        ('asm(".incbin \\"/etc/passwd\\"");\n', [], True),
        ("#define JOIN(a, b) a##b\n", [], True),
        ('.incbin "/etc/passwd"\n', [], True),
        ("      include '/etc/passwd'\n", ["/etc/passwd"], False),
        ('char *s = "#include <x>"; // .include\n', [], True),
        ('printf("masm\\n");\n', [], False),
    ],
)
def test_what_a_compiler_reads(text: str, paths: list[str], doubt: bool) -> None:
    files = {"/p/src/a.h": '#include "/etc/passwd"\n', "/p/.env": "KEY=x\n"}
    assert brought("c-source", text, files) == (paths, doubt)


@pytest.mark.parametrize(
    "lines",
    [
        "Alice -> Bob: hi",
        "Alice->Bob : hi (again), no. 3",
        "' a comment",
        'participant "A b" as A #99FF99\nA --> B : ok\nactivate B\nB --> A\ndeactivate B',
        "class Car {\n  +drive() : void\n  - wheels\n}\nCar <|-- Bus\nCar *-- Wheel",
        "[*] --> Idle\nIdle -[#red]-> [*]\nstate Idle",
        'package "some group" {\n  [First] - [Second]\n}\ndatabase Db <<MySQL>>',
        "start\nif (ok?) then (yes)\nelse (no)\nendif\nstop",
        "title A plan\nnote left of A : text\r",
    ],
)
def test_diagrams_that_only_draw(lines: str) -> None:
    assert brought("plantuml", f"@startuml\n{lines}\n@enduml\n") == ([], False)


@pytest.mark.parametrize(
    "text",
    [
        "@startuml\n!include /etc/passwd\n@enduml",
        "@startuml\n  !includeurl //x/a\n@enduml",
        " * @startuml\n * !include /etc/passwd\n * @enduml",
        "@startuml\n@pause\n# @unpause\n# !include /etc/passwd\n@enduml",
        "@startuml\n/' x '/!include /etc/passwd\n@enduml",
        "@startuml\n@append !include /etc/passwd\n@enduml",
        "@startuml\n'@a !include /etc/passwd\n@enduml",
        '@startuml\nA -> B : %get\\\nenv("HOME")\n@enduml',
        "@startuml\n\ufeff!include /etc/passwd\n@enduml",
        "@startuml\n\0!include /etc/passwd\n@enduml",
        "@startuml\n!define A ..\nA -> B\n@enduml",
        "\\startuml /etc/cron.d/x\nA -> B\n@enduml",
        "@STARTUML ../../x\nA -> B\n@enduml",
        "@startumlx ../../x\nA -> B\n@enduml",
        "@startuml ../../x\nA -> B\n@enduml",
        "@startuml(id=x)\nA -> B\n@enduml",
        "@startuml\nA -> B\n@enduml\n@startuml ../x\nA -> B\n@enduml",
        "@startuml\nA -> B\n@startuml ../x\n@enduml",
        "@startuml\n<style file=/etc/passwd>\n@enduml",
        "@startuml\nA -> B : <img:/etc/x.png>\n@enduml",
        "@startuml\nA -> B : [[{/etc/x} a]]\n@enduml",
        "@startuml\nsprite s /etc/x.svg\n@enduml",
        "@startuml\ncheckversion\n@enduml",
        "@startuml\ncheckversion(proxy=evil.example,port=80)\n@enduml",
        "@startuml\nskin /etc/passwd\n@enduml",
        "@startuml\nskinparam backgroundImage /etc/x\n@enduml",
        "@startuml\nstrict digraph g {\n}\n@enduml",
        "@startuml\ntestdot\n@enduml",
        "@startuml\npath\n@enduml",
        "@startuml\n{{ditaa\n}}\n@enduml",
        '@startdot\ndigraph { a [image="/etc/x"] }\n@enddot',
        "@startuml\nA -> B\x0b!include /etc/x\n@enduml",
        "@startuml\nA -> B\n",
        "",
    ],
)
def test_diagrams_that_may_do_more_than_draw(text: str) -> None:
    assert brought("plantuml", text) == ([], True)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "#", " #", "%:", "include", "inc", "lude", "\\\n", " ", "/*x*/", "/*\n*/", '"OUT"', '"in.h"', "<OUT>",
                '"../secret"', "NAME", "\n", "//", "#define NAME ", '"', "OUT", "#if 0\n", "#endif\n", "#include ",
                '#include "OUT"\n',
            ]
        ),
        max_size=9,
    )
)  # fmt: skip
def test_every_file_that_gcc_reads_is_named(tmp_path: Path, pieces: list[str]) -> None:
    project, secret = tmp_path / "p", tmp_path / "secret"
    project.mkdir(exist_ok=True)
    secret.write_text("int x;\n")
    (project / "in.h").write_text(f'#include "{secret}"\n')
    text = "".join(pieces).replace("OUT", str(secret)) + "\n"
    (project / "a.c").write_text(text)
    told = subprocess.run(["gcc", "-M", "a.c"], cwd=project, capture_output=True, text=True)
    opened = {str((project / each).resolve()) for each in told.stdout.replace("\\\n", " ").split()[1:]}

    def files(path: str) -> Found:
        return Found((Path(path).read_text(),)) if Path(path).is_file() else NOT_THERE

    behaviour = read("c-source", text, path=str(project / "a.c"), files=files)
    assert behaviour is not None
    named = {str(Path(act.operands[0].choices[0]).resolve()) for act in behaviour.acts}
    outside = {path for path in opened if path.startswith(str(tmp_path)) and not path.startswith(f"{project}/")}
    assert behaviour.doubts or outside <= named


@pytest.mark.parametrize(
    ("text", "paths", "doubt"),
    [
        ("Title\n=====\n\nText with ``code``.\n", [], False),
        (".. include:: /etc/passwd\n", ["/etc/passwd"], False),
        ("..  Include ::\n   ../.env\n", ["/p/src/../.env"], False),
        (".. |x| include:: /etc/passwd\n", ["/etc/passwd"], False),
        (".. include:: <isonum.txt>\n", [], False),
        (".. csv-table:: x\n   :file: /etc/passwd\n", ["/etc/passwd"], False),
        (".. include:: b.rst\n", ["/p/src/b.rst", "/etc/passwd"], False),
        ("include::/etc/passwd[]\n", ["/etc/passwd"], False),
        ("include::{path}[]\n", [], True),
        (":data-uri:\n", [], True),
        ('#+INCLUDE: "/etc/passwd" src c\n', ["/etc/passwd"], False),
        ("\\input{/etc/passwd}\n", ["/etc/passwd", "/etc/passwd.tex"], False),
        ("\\newcommand{\\x}{/etc}\n", [], True),
        ("We include:: nothing, and the file: a.\n", [], False),
    ],
)
def test_what_a_converter_reads(text: str, paths: list[str], doubt: bool) -> None:
    assert brought("document", text, {"/p/src/b.rst": ".. include:: /etc/passwd\n"}) == (paths, doubt)


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (".TH X 1\n.SH NAME\nx \\- does \\fBthings\\fR\n", False),
        (".Dd today\n.Dt X 1\n.Sh NAME\n.Nm x\n", False),
        (".so /etc/passwd\n", True),
        ("' so /etc/passwd\n", True),
        (".als zz so\n.zz /etc/passwd\n", True),
        (".cc !\n!so /etc/passwd\n", True),
        ("\\V[API_TOKEN]\n", True),
        (".B \\*[x]\n", True),
    ],
)
def test_manual_pages(text: str, doubt: bool) -> None:
    assert brought("manual-page", text) == ([], doubt)
