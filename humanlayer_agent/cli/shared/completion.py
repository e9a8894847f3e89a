"""Completion of a command line by the shell: policies, rules, requests, runs, channels, checks, programs.

What can't be read completes nothing: a shell that waits for a word is no place for an error.
"""

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import wraps
from pathlib import Path

from humanlayer_agent.errors import HumanlayerError

_SHOWN = 60
Completion = str | tuple[str, str]
"""A word, and in some shells a few words about it."""


def _completing(known: Callable[[], Iterable[Completion]]) -> Callable[[str], list[Completion]]:
    """Make of all the words that there are a function that returns those which begin as what was typed."""

    @wraps(known)
    def complete(incomplete: str) -> list[Completion]:
        with suppress(HumanlayerError, OSError, ValueError):
            return [each for each in known() if (each if isinstance(each, str) else each[0]).startswith(incomplete)]
        return []

    del complete.__wrapped__  # typer reads the parameters
    return complete


def policy_names(incomplete: str) -> list[Completion]:
    """Return shipped policies, and policy files."""
    from humanlayer_agent.policy.language.sources import shipped_names

    names: list[Completion] = [name for name in shipped_names() if name.startswith(incomplete)]
    folder, _, beginning = incomplete.rpartition("/")
    start = f"{folder}/" if "/" in incomplete else ""
    with suppress(OSError):
        for path in sorted(Path(start or ".").iterdir()):
            if path.name.startswith(beginning) and not (path.name.startswith(".") and not beginning):
                if path.is_dir():
                    names.append(f"{start}{path.name}/")
                elif path.suffix in (".yaml", ".yml"):
                    names.append(f"{start}{path.name}")
    return names


@_completing
def rule_ids() -> Iterable[Completion]:
    """Return the ids of the rules in force."""
    from humanlayer_agent.configuration import build_director

    director = build_director(None, tested=False)
    return dict.fromkeys(rule.id for layer in director.layers for rule in layer.policy.rules)


@_completing
def request_ids() -> Iterable[Completion]:
    """Return the requests that wait, each with its command; none where an agent's command asks."""
    from humanlayer_agent.cli.shared.human_terminal import supervisors
    from humanlayer_agent.cli.shared.store_access import open_store
    from humanlayer_agent.processes.ancestry import refuse_agents
    from humanlayer_agent.safe_text import one_line

    refuse_agents("looks at requests", supervisors())
    with closing(open_store(None)) as opened:
        return [
            (request.id[:12], one_line(request.action.content)[:_SHOWN]) for request in opened.requests(state="pending")
        ]


@_completing
def grant_ids() -> Iterable[Completion]:
    """Return the grants that hold, each with what it covers; none where an agent's command asks."""
    from humanlayer_agent.cli.shared.human_terminal import supervisors
    from humanlayer_agent.cli.shared.store_access import open_store
    from humanlayer_agent.processes.ancestry import refuse_agents
    from humanlayer_agent.safe_text import one_line

    refuse_agents("looks at grants", supervisors())
    with closing(open_store(None)) as opened:
        return [(grant.id[:12], one_line(grant.words)[:_SHOWN]) for grant in opened.grants.given(active=True)]


@_completing
def run_ids() -> Iterable[Completion]:
    """Return the runs of the store, the newest first."""
    from humanlayer_agent.cli.shared.store_access import open_store
    from humanlayer_agent.safe_text import one_line

    with closing(open_store(None)) as opened:
        found = [entry.event for entry in opened.events(type="run.started")]
    return [(str(event["run"]), one_line(str(event.get("agent", "")))) for event in reversed(found)]


@_completing
def kept_run_ids() -> Iterable[Completion]:
    """Return the runs that files were kept for."""
    from humanlayer_agent.locations import kept_folder
    from humanlayer_agent.undo.kept_files import KeptFiles

    return [(each.run, each.project) for each in KeptFiles(kept_folder()).all()]


@_completing
def channel_names() -> Iterable[Completion]:
    """Return the channels of the user's channels files."""
    from humanlayer_agent.channels import settings

    return list(settings.load().channels)


@_completing
def check_names() -> Iterable[Completion]:
    """Return the checks of the linter."""
    from humanlayer_agent.policy_tools.lint import CHECKS

    return [(check.id, check.summary) for check in CHECKS]


@_completing
def program_names() -> Iterable[Completion]:
    """Return the programs of the catalog."""
    from humanlayer_agent.configuration import catalogs_in_force

    return catalogs_in_force().catalog.names()


@_completing
def catalog_files() -> Iterable[Completion]:
    """Return the files of the catalog."""
    from humanlayer_agent.policy.command_catalog import CATALOG

    return sorted({CATALOG.family(name) or "" for name in CATALOG.names()})
