"""Programs that make names of files out of others."""

import pytest

from humanlayer_agent.shell import analyse
from humanlayer_agent.shell.disk_reader import GivenReader

FILES = {
    "/p/d/a.puml": "@startuml\nA -> B\n@enduml\n",
    "/p/d/names.puml": "@startuml other\nA -> B\n@enduml\n",
    "/p/d/shadow.puml": "@startuml\n!include /etc/shadow\n@enduml\n",
}


@pytest.mark.parametrize(
    ("command", "effects", "resolved"),
    [
        ("plantuml d/a.puml", "read /p/d/a.puml, write /p/d/a.png, write /p/d/a_001.png", True),
        (
            "plantuml -tsvg -o ../out d/a.puml",
            "read /p/d/a.puml, write /p/d/../out/a.svg, write /p/d/../out/a_001.svg",
            True,
        ),
        ("plantuml -checkonly d/a.puml", "read /p/d/a.puml", True),
        (
            "plantuml d/names.puml",
            "read /p/d/names.puml, write /p/d/names.png, write /p/d/names_001.png, write /p/d/other.png",
            True,
        ),
        (
            "plantuml d/shadow.puml",
            "read /p/d/shadow.puml, write /p/d/shadow.png, write /p/d/shadow_001.png, read /etc/shadow",
            True,
        ),
        ("plantuml d", "", False),
        ("plantuml 'd/*.puml'", "", False),
        ("plantuml", "", False),
        ("cat a | plantuml -pipe", "", False),
    ],
)
def test_plantuml_draws_a_text_and_runs_nothing(command: str, effects: str, resolved: bool) -> None:
    program = analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=GivenReader(FILES))
    drawn = program.commands[-1]
    assert drawn.resolved is resolved
    if resolved:
        assert ", ".join(f"{each.kind} {each.operand}" for each in drawn.effects) == effects
