"""Catalog files under the resident server of hooks: what it has loaded is noticed to be another, and when it counts."""

from tests.hooks.conftest import Machine

FROB = """\
programs:
  frob: {about: frobnicates files, operands: ["read*"]}
examples:
  - {command: frob a, effects: [read a]}
"""


def test_a_file_that_appears_changes_or_breaks_is_noticed(machine: Machine) -> None:
    folder = machine.home / ".config/humanlayer-agent/catalog"
    assert machine.bash("frob a", session_id="c1").verdict == "ask"
    folder.mkdir(mode=0o700, parents=True)
    path = folder / "frob.yaml"
    path.write_text(FROB)
    path.chmod(0o600)
    try:
        same = machine.bash("frob a", session_id="c1")
        assert same.verdict == "ask"  # whoever can write it could allow everything, in the middle of a session
        assert "not the one that this session began with" in same.reason
        assert machine.bash("frob a", session_id="c2").verdict == "allow"
        path.write_text(FROB.replace('["read*"]', "[delete]").replace("read a", "delete a"))
        assert machine.bash("frob /srv/a", session_id="c3").verdict == "ask"
        path.chmod(0o666)
        assert machine.bash("ls", session_id="c4").refused
    finally:
        path.unlink()
        folder.rmdir()
    assert machine.bash("frob a", session_id="c5").verdict == "ask"
    assert machine.bash("ls", session_id="c5").verdict == "allow"
    assert len(machine.servers()) == 1


def test_a_coding_agent_writes_none(machine: Machine) -> None:
    for place in (machine.home / ".config/humanlayer-agent", machine.project / ".humanlayer"):
        inputs = {"file_path": str(place / "catalog/frob.yaml"), "content": FROB}
        assert machine.ask("Write", inputs, session_id="w1").refused
