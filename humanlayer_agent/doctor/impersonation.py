"""Tries whether a hook believes somebody else who answers in the place of the process that judges."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from humanlayer_agent.audit import events
from humanlayer_agent.doctor import impersonator
from humanlayer_agent.doctor.context import Context, Finding, failed, ok
from humanlayer_agent.errors import StoreError
from humanlayer_agent.hooks import client
from humanlayer_agent.locations import STORE_VARIABLE

_MARK = "said by somebody else"
_COMMAND = "rm -rf /nowhere/of-this-test"
_SECONDS = 50
_REPORT = "Report this, please."


def hooks(context: Context) -> Iterator[Finding]:
    """Ask a real hook, with a folder and a store of its own, while a program answers "allow" at its socket."""
    with tempfile.TemporaryDirectory() as base:
        store, project = Path(base, "store.sqlite3"), Path(base, "project")
        environ = {**context.environ, "XDG_STATE_HOME": base, "CLAUDE_PROJECT_DIR": str(project)}
        environ |= {STORE_VARIABLE: str(store)}
        folder = Path(base, "humanlayer-agent", "hooks")
        for each in (project, folder):
            each.mkdir(mode=0o700, parents=True)
        program = [sys.executable, "-I", impersonator.__file__, client.socket_name(environ), _MARK]
        with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline() == b"ready\n"
                said = _asked(environ, str(project)) if ready else b""
            finally:
                process.kill()
        if not ready:
            yield failed("it is not known whether a hook believes somebody else: nobody could listen in its folder")
        elif _MARK.encode() in said:
            yield failed("a hook believes whoever answers in the place of the process that judges", _REPORT)
        elif not _noted(store):
            yield failed("a hook believes nobody else, and the log does not say that somebody tried", _REPORT)
        else:
            yield ok("a hook believes nobody who answers in the place of the process that judges, and the log has it")


def _asked(environ: dict[str, str], project: str) -> bytes:
    """Return what a hook answers."""
    question = {"hook_event_name": "PreToolUse", "cwd": project, "tool_name": "Bash", "session_id": "doctor"}
    hook = [sys.executable, "-I", "-m", "humanlayer_agent.cli", "hook", "claude-code", "--deadline", str(_SECONDS)]
    data = json.dumps({**question, "tool_input": {"command": _COMMAND}}).encode()
    return subprocess.run(hook, input=data, env=environ, capture_output=True, check=False).stdout


def _noted(path: Path) -> bool:
    from humanlayer_agent.store.sqlite import SQLiteStore

    try:
        store = SQLiteStore(path, create=False)
    except StoreError:
        return False
    try:
        return any(store.events(type=events.HOOK_UNPROVEN.name))
    finally:
        store.close()
