"""What commands of clouds, clusters and code hosts ask of the service, and in which account or place."""

import posixpath
from pathlib import Path
from typing import Any

from humanlayer_agent.shell import SimpleCommand, analyse
from tests.support.rows import for_each
from tests.support.tables import table

TABLE: dict[str, list[Any]] = table(Path(__file__).with_name("services.yaml"))
ROWS = [(verbs, row if isinstance(row, dict) else {"command": row}) for verbs, rows in TABLE.items() for row in rows]


def seen(command: str) -> SimpleCommand:
    return analyse(command, cwd="/srv/app").commands[-1]


def told(command: SimpleCommand) -> str:
    """What the roles of its effects say."""
    roles = {e.role.removeprefix("service-"): e.resolved for e in command.effects if e.role.startswith("service-")}
    if not command.known or (roles and not all(roles.values())):
        return "unknown"
    return "+".join(sorted(roles)) or "local"


@for_each(("verbs", "row"), ROWS)
def test_service(verbs: str, row: dict[str, Any]) -> None:
    command = seen(row["command"])
    assert told(command) == verbs
    if verbs == "unknown":
        assert not command.resolved
        assert not any(e.role == "service-read" for e in command.effects)
    effects = {(e.kind, e.operand) for e in command.effects}
    for effect in row.get("effects", ()):
        kind, _, operand = effect.partition(" ")
        path = posixpath.normpath(posixpath.join("/srv/app", operand)) if kind != "network" else operand
        assert (kind, path) in {(k, o and (posixpath.normpath(o) if o[0] == "/" else o)) for k, o in effects}, effects
    for name, value in row.get("attributes", {}).items():
        values = command.attributes[name]
        assert (None in values) if value is None else values == [value]


def test_many_are_told() -> None:
    assert len(ROWS) >= 300
