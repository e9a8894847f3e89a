"""The list of checks, in the order in which they are made and shown."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from humanlayer_agent.doctor import agents, files, machine, people, policies, store, walls
from humanlayer_agent.doctor.context import Context, Finding, failed


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a name for programs, the group it is shown in, and what makes it."""

    name: str
    group: str
    make: Callable[[Context], Iterable[Finding]]


CHECKS = (
    Check("python", "This machine", machine.python),
    Check("bash", "This machine", machine.bash),
    Check("sqlite", "This machine", machine.sqlite),
    Check("terminal", "This machine", machine.terminal),
    Check("user", "This machine", machine.user),
    Check("supervised", "This machine", machine.supervised),
    Check("files.config", "Files", files.config),
    Check("files.data", "Files", files.data),
    Check("files.state", "Files", files.state),
    Check("files.machine", "Files", files.machine),
    Check("policies.project", "Policies", policies.project),
    Check("policies.load", "Policies", policies.loaded),
    Check("policies.tests", "Policies", policies.tested),
    Check("policies.trust", "Policies", policies.trusted),
    Check("policies.catalogs", "Policies", policies.catalogs),
    Check("policies.enforced", "Policies", policies.enforced),
    Check("policies.compiled", "Policies", policies.compiled),
    Check("key", "People and channels", people.key),
    Check("signers", "People and channels", people.signers),
    Check("channels.load", "People and channels", people.loaded),
    Check("channels.ignored", "People and channels", people.ignored),
    Check("channels.secrets", "People and channels", people.secrets),
    Check("routes", "People and channels", people.routes),
    Check("routes.on_call", "People and channels", people.on_call),
    Check("routes.named", "People and channels", people.named),
    Check("channels.links", "People and channels", people.mails),
    Check("hooks", "Coding agents", agents.hooks),
    Check("mcp", "Coding agents", agents.servers),
    Check("store.disk", "Store and log", store.disk),
    Check("store.opens", "Store and log", store.opens),
    Check("store.schema", "Store and log", store.schema),
    Check("store.wal", "Store and log", store.wal),
    Check("store.log", "Store and log", store.log),
    Check("store.anchor", "Store and log", store.anchor),
    Check("store.kept", "Store and log", store.kept),
    Check("store.stopped", "Store and log", store.stopped),
    Check("store.grants", "Store and log", store.grants),
    Check("store.absences", "Store and log", store.absences),
    Check("store.heads", "Store and log", store.heads),
    Check("clock", "Store and log", store.clock),
    Check("walls.processes", "Walls around agents' commands", walls.processes),
    Check("walls.watchers", "Walls around agents' commands", walls.watchers),
    Check("walls.confinement", "Walls around agents' commands", walls.confinement),
    Check("walls.impersonation", "Walls around agents' commands", agents.impersonation),
    Check("walls.spellings", "Walls around agents' commands", walls.spellings),
)


def examine(context: Context) -> Iterator[tuple[Check, Finding]]:
    """Make all checks. One that breaks has failed, and the others go on."""
    for check in CHECKS:
        try:
            for finding in check.make(context):
                yield check, finding
        except Exception as error:
            yield check, failed(f"this could not be checked: {type(error).__name__}: {error}")
