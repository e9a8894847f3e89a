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
        ("plantuml d/a.puml", "read /p/d/a.puml, write /p/d/a.png", True),
        ("plantuml -tsvg -o ../out d/a.puml", "read /p/d/a.puml, write /p/d/../out/a.svg", True),
        ("plantuml -tsvg -tpng d/a.puml", "read /p/d/a.puml, write /p/d/a.png, write /p/d/a.svg", True),
        ("plantuml -checkonly d/a.puml", "read /p/d/a.puml", True),
        ("plantuml d/names.puml", "", False),
        ("plantuml d/shadow.puml", "", False),
        ("plantuml -theme 'x from /etc' d/a.puml", "", False),
        ("plantuml -charset UTF-16BE d/a.puml", "", False),
        ("plantuml -o '\"/x\"' d/a.puml", "", False),
        ("plantuml -syntax < d/a.puml", "", False),
        ("base64 -d x > d/a.puml && plantuml d/a.puml", "", False),
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
