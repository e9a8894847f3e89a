"""The proof of a hook's answer: what the log says of it, as the process reads it that asked.

An answer names two events by number and hash. In `decision.evaluated` (or `decision.left`, for a call that no policy is
about) stands the digest of the question, which has a number in it that is used once: an older answer to the same
command is none to this. In the last of them, `exec.finished` of a permit that was used, stands the digest of the
answer, so that what is printed is what was recorded. What is to run confined has `permit.handed` there, since its
permit is used later, and a call that has ended `hook.reported` in the place of both. Where nobody was asked, the policy
must be the one by which this session of the coding agent was first judged.

The store is the one that our own environment names. A file is read with SQLite alone: this runs before every call of an
agent. A server is asked on a connection of our own, as long as there is time for an answer.
"""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from humanlayer_agent.hooks.client import HookFailed, Unproven, packed

_FIELDS = tuple(
    "type pid run digest question reply verdict enforced request grants left_to policy_digest".split()  # noqa: SIM905
)
_READ = ", ".join(f"json_extract(body, '$.{name}') AS {name}" for name in _FIELDS)
_RUNS = (
    "SELECT run.id FROM audit_event JOIN run ON run.id = run WHERE type = 'run.started' "
    "AND json_extract(body, '$.agent') = ? AND json_extract(body, '$.instance') = ? AND project = ? ORDER BY seq"
)
_FIRST_DECISION = "SELECT body FROM audit_event WHERE run = ? AND type = 'decision.evaluated' ORDER BY seq LIMIT 1"
_BUSY_S = 2.0

try:  # a tenth of what a hook costs would go into hashlib, which loads OpenSSL
    _sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
except ImportError:
    from hashlib import sha256 as _sha256
_Event = dict[str, object]
Policy = tuple[str, bool]
"""The digest of a policy, and whether it is enforced."""


def digest(*parts: bytes) -> str:
    """Return the SHA-256 (hex) of several texts, each told apart from the next."""
    made: str = _sha256(packed(*parts)).hexdigest()
    return made


def packed_proof(first: tuple[int, str], last: tuple[int, str]) -> bytes:
    """Return the names of two events as an answer has them: number and hash of each."""
    return f"{first[0]} {first[1]} {last[0]} {last[1]}".encode()


def store_location() -> str:
    """Return where the store is: `locations.store_location()`, without what importing that module costs."""
    named, own = os.environ.get("HUMANLAYER_STORE", ""), os.environ.get("XDG_CONFIG_HOME", "")
    own = own if os.path.isabs(own) else os.path.expanduser("~/.config")
    configured = any(os.path.lexists(f"{folder}/humanlayer-agent/store.yaml") for folder in (own, "/etc"))
    if "://" in named or (configured and not named):
        from humanlayer_agent.locations import store_location

        found = store_location()
        return "/" + found.removeprefix("sqlite:").lstrip("/") if found.startswith("sqlite:///") else found
    if named:
        return os.path.expanduser(named)
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.local/share")
    return os.path.join(base, "humanlayer-agent", "store.sqlite3")


def check(
    proof: bytes, *, question: bytes, nonce: bytes, data: bytes, out: bytes, pid: int | None, seconds: float = 60.0
) -> None:
    """Make sure that the log says of this question what the answer says.

    Args:
        proof: of the answer, as `packed_proof` makes it.
        question: all that the server was sent; `nonce` is in it, and known to nobody else before.
        data: the coding agent's own part of it.
        out: what the answer would have printed.
        pid: who has answered; None where the system does not say.
        seconds: so long a server of databases may take to say what is in the log.

    Raises:
        Unproven: it does not, or can't be read.
        HookFailed: the time is over.
    """

    def look(opened: Callable[[str], Any]) -> None:
        try:
            first, first_hash, last, last_hash = proof.decode().split(" ")
            with opened(location) as log:
                judged, told = log.event(int(first), first_hash), log.event(int(last), last_hash)
                _check_events(judged, told, digest(question), digest(nonce, out), pid)
                if judged["type"] == "decision.evaluated":
                    _check_run(log, judged, data, pid)
        except (sqlite3.Error, OSError, ValueError) as error:
            raise _unproven(f"it can't be read ({error})") from error

    location = store_location()
    if "://" in location:
        _in_time(lambda: look(_on_server), seconds)
    else:
        look(_in_file)


def _in_time(call: Callable[[], None], seconds: float) -> None:
    """Call it. What takes longer is left to itself: nothing ends the search for a host's address before it is done."""
    import threading

    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise HookFailed("the store did not say in time what is in the log")
    if raised:
        raise raised[0]


def _check_events(judged: _Event, told: _Event, question: str, reply: str, pid: int | None) -> None:
    if judged["question"] != question or told["question"] != question:
        raise _unproven("that is about another question")
    if told["reply"] != reply:
        raise _unproven("another answer was recorded")
    if pid is not None and {judged["pid"], told["pid"]} != {pid}:
        raise _unproven(f"process {judged['pid']} has judged, and process {pid} answers")
    if told["type"] in ("exec.finished", "permit.handed"):  # of a permit that was used, or that is asked for next
        approved = judged["verdict"] == "ask" and (judged["request"] is not None or judged["grants"] is not None)
        allowed = judged["verdict"] == "allow" or approved or not judged["enforced"]
        right = judged["type"] == "decision.evaluated" and allowed and told["digest"] == judged["digest"]
    else:
        asks = judged["type"] == "decision.evaluated" and judged["verdict"] == "ask" and judged["left_to"] is not None
        right = told == judged and (asks or judged["type"] in ("decision.left", "hook.reported"))
    if not right:
        raise _unproven("it was not allowed")


def _check_run(log: "_Log", judged: _Event, data: bytes, pid: int | None) -> None:
    """The run must be one of this session, of the process that answers, and judged by the session's own policy."""
    if judged["type"] == "hook.reported":
        if not str(log.value(data.decode(), "hook_event_name")).startswith("Post"):
            raise _unproven("nothing has run yet")
        return
    run = log.row("SELECT agent, instance, project, process FROM run WHERE id = ?", judged["run"])
    if run is None:
        raise _unproven("it is of no run")
    if pid is not None and not run["process"].endswith(f":{pid}:{_start(pid)}"):
        raise _unproven(f"its run is not one of process {pid}")
    session = log.value(data.decode(), "session_id")
    if not session or (judged["request"] is not None and judged["enforced"]) or judged["left_to"] is not None:
        return  # humans have answered it, or are asked
    if run["instance"] != str(session):
        raise _unproven("it is of another session")
    if policy_of(judged) != log.session_policy(run["agent"], run["instance"], run["project"]):
        raise _unproven("the policy is not the one that this session began with")


def policy_of(decision: _Event) -> Policy:
    """Return the policy by which a decision was made."""
    return str(decision["policy_digest"]), bool(decision["enforced"])


def _start(pid: int) -> str:
    """The start time of a process, as `processes.identity` has it, without what importing that module costs."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()


class _Log:
    """Reads events by their bytes alone: what other columns say of them is not believed."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def row(self, query: str, *values: object) -> Any:
        """Return the first row that a query finds; None where it finds none."""
        return self._connection.execute(query, values).fetchone()

    def event(self, seq: int, hash: str) -> _Event:
        """Return the event with this number and hash."""
        row = self.row("SELECT body FROM audit_event WHERE seq = ?", seq)
        if row is None or _sha256(row["body"].encode()).hexdigest() != hash:
            raise _unproven("the event that it names is not there")
        return self.fields(row["body"])

    def session_policy(self, agent: str, session: str, project: str) -> Policy | None:
        """Return the policy by which the first call of a coding agent's session was judged; None where none was yet."""
        runs = self._connection.execute(_RUNS, (agent, session, project)).fetchall()
        for run in runs:
            found = self.row(_FIRST_DECISION, run["id"])
            if found is not None:
                return policy_of(self.fields(found["body"]))
        return None

    def fields(self, body: str) -> _Event:
        """Return what is looked at of an event."""
        row = self.row(f"SELECT {_READ} FROM (SELECT ? AS body)", body)
        return {name: row[name] for name in row.keys()}  # noqa: SIM118 - a Row iterates over its values

    def value(self, text: str, name: str) -> object:
        """Return a value in the object that is a JSON text."""
        return self._connection.execute("SELECT json_extract(?, ?)", (text, f"$.{name}")).fetchone()[0]


class _ServerLog(_Log):
    """The same on a server, which has brought a reader of JSON along."""

    def fields(self, body: str) -> _Event:
        import json

        event = json.loads(body)
        return {name: event.get(name) for name in _FIELDS}

    def value(self, text: str, name: str) -> object:
        import json

        return json.loads(text).get(name)


@contextmanager
def _in_file(path: str) -> Iterator[_Log]:
    spelled = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(f"file:{spelled}?mode=ro", uri=True, isolation_level=None, timeout=_BUSY_S)
    with closing(connection):
        connection.row_factory = sqlite3.Row
        yield _Log(connection)


@contextmanager
def _on_server(url: str) -> Iterator[_Log]:
    try:
        from humanlayer_agent.errors import HumanlayerError
        from humanlayer_agent.store.postgres.server import Address, connected
    except ImportError as error:
        raise _unproven(f"it can't be read ({error})") from error
    try:
        with connected(Address(url)) as session:
            yield _ServerLog(session)
    except HumanlayerError as error:
        raise _unproven(f"it can't be read ({error})") from error


def _unproven(why: str) -> Unproven:
    return Unproven(f"the log does not prove this answer: {why}")
