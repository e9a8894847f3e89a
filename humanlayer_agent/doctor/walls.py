"""The walls around agents' commands, tried: a real supervised command attacks us, and spellings are judged."""

import ctypes
import json
import os
import secrets
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from humanlayer_agent.action import BASH, Action
from humanlayer_agent.confine import landlock
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure, find
from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable
from humanlayer_agent.confine.forwarder import PROXY
from humanlayer_agent.confine.hosts import PUBLIC
from humanlayer_agent.confine.proof import WALLS, interpreter_reads, prove, remedy
from humanlayer_agent.doctor import attack as probe
from humanlayer_agent.doctor.context import NOWHERE, Context, Finding, failed, ok, warning
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import config_folder, data_folder, default_store_path, key_path
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.processes.execution import command_environment, run_command
from humanlayer_agent.processes.memory_protection import Protection, protect_secrets

_SECRET = "HUMANLAYER_DOCTOR_SECRET"
_LENGTH = 16
_OWN_USER = "Run agents as an ordinary user on Linux, or in a container that holds nothing but the task."
_REPORT = "Report this, please."
_CONTAINER = "Let agents' commands run in a container, or as a user of their own."
_ROOT_ONLY = ("environment", "memory", "files", "trace", "typing")
"""What nobody but root, or a user with such rights, can do while the walls stand."""

_ATTEMPTS = {
    "environment": "read the supervisor's environment",
    "memory": "read the supervisor's memory",
    "files": "read the supervisor's open files",
    "trace": "trace the supervisor (ptrace)",
    "typing": "type into a terminal that is not its own (TIOCSTI)",
    "terminal": "open the supervisor's terminal (/dev/tty)",
    "secret": "find a secret in its environment",
    "stdin": "read what is typed, on stdin",
}

_AS_YOU = {"store": "the store", "terminals": "what is typed at your terminals"}
"""What every process of the same user can do. (It can read the key's file too, which is locked.)"""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of one attempt: `came` is None where it broke, and `why` says what stopped it."""

    came: bool | None
    why: str


def processes(context: Context) -> Iterator[Finding]:
    """Check what a command that is allowed could do to us by itself."""
    protection = protect_secrets()
    attempts = _attempts(context)
    if sys.platform != "linux":
        yield warning(
            f"commands can read the secrets of the process that supervises them: {protection.why_not}", _OWN_USER
        )
    tried = [what for what in _ATTEMPTS if sys.platform == "linux" or what not in _ROOT_ONLY]
    yield from _once(_judged(what, _ATTEMPTS[what], attempts.get(what), protection) for what in tried)
    reached = [name for what, name in _AS_YOU.items() if (attempt := attempts.get(what)) and attempt.came]
    if reached:
        yield warning(
            f"a program that the policy lets run can read {', '.join(reached)}, because it runs as you: "
            "only the policy stands before that",
            _CONTAINER,
        )
    else:
        yield ok(f"a command can't read {', '.join(_AS_YOU.values())}")
    yield from _key(attempts.get("key"))


def _key(attempt: _Attempt | None) -> Iterator[Finding]:
    """Check what keeps commands from signing, and what only the policy keeps them from."""
    from humanlayer_agent.keys.signing import Signer

    try:
        _ = Signer(key_path()).fingerprint
    except ConfigError:
        return  # `key` says so
    can = "can" if attempt is not None and attempt.came else "can't"
    yield ok(f"a command {can} read the file of your key, and can't sign with it: your passphrase locks it")
    yield warning(
        "a program that the policy lets run could get at your passphrase when you type it: by what your shell and hla "
        "start from (PATH, aliases, PYTHONPATH, the program itself), or by reading your terminal",
        _CONTAINER,
    )


def spellings(context: Context) -> Iterator[Finding]:
    """Check what the policies in force say of commands that no agent may run."""
    try:
        director = context.director
    except ConfigError:
        yield failed("the policies can't be read, so nothing is denied by them", "See above.")
        return
    project = str(context.project or NOWHERE)
    found = [(each, director.evaluate(Action(each["command"], cwd=project, project=project))) for each in _spellings()]
    wrong = [(each, decision) for each, decision in found if not _stopped(each, decision.verdict)]
    for each, decision in wrong:
        said = f"the policies {'only ask about' if decision.verdict is Verdict.ASK else 'ALLOW'} what {each['does']}: "
        say = warning if decision.verdict is Verdict.ASK else failed
        yield say(said + each["command"], "Let your policy extend builtin:guard, or a policy that does.")
    for asked, what in ((False, "of what no agent may do are denied"), (True, "of ways out of sight are asked about")):
        those = [each for each, _ in found if bool(each.get("ask")) is asked]
        right = len(those) - sum(each in those for each, _ in wrong)
        if right:
            yield ok(f"{right} of {len(those)} spellings {what}")


def _stopped(each: Mapping[str, Any], verdict: Verdict) -> bool:
    return verdict is Verdict.DENY or (verdict is Verdict.ASK and bool(each.get("ask")))


def watchers(context: Context) -> Iterator[Finding]:
    """A supervised command ends the process that watches over it."""
    if sys.platform != "linux":
        yield warning("what ends the process that watches over it is not found here: that needs Linux", _CONTAINER)
        return
    command = "env -i setsid sleep 60 & kill -9 $PPID; sleep 60"
    result = run_command((*BASH, command), cwd="/", env=command_environment(context.environ), timeout=30)
    if result.unwatched:
        yield ok("a command that ends what watches over it is ended with what it has left, and so is the run")
    else:
        yield failed("a command that ends what watches over it is not found", _REPORT)


def confinement(context: Context) -> Iterator[Finding]:
    """Try every wall of a confinement, with a command that attacks it."""
    if sys.platform != "linux":
        yield warning("no command can be confined here: that needs Linux", _CONTAINER)
        return
    try:
        proof = prove(find())
    except Unenforceable as why:
        yield warning(f"no command can be confined here, so what nobody can read is asked about: {why}{remedy()}")
        yield from _second_wall()
        return
    backend = f"{proof.backend.name} {proof.backend.version}"
    for wall in proof.walls:
        if not wall.held:
            yield failed(f"{backend} does not hold: {WALLS[wall.name]}{remedy()}", "Don't confine commands here.")
    if proof.holds:
        yield ok(f"{backend} holds a confined command: {len(proof.walls)} ways out were tried")
        yield from _forwarder(proof.backend)


def _forwarder(backend: Bubblewrap) -> Iterator[Finding]:
    """Try whether what reaches the web by a forwarder reaches a server on this machine, as it does without."""
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="hla-doctor-", dir=os.path.realpath("/var/tmp")))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        direct = f"(exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached) 2>&1"
        asked = f"printf 'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n' >&3 && read -r said <&3 && echo $said"
        command = f"{direct}; exec 3<>/dev/tcp/{'/'.join(map(str, PROXY))} && {asked}"
        profile = Profile("doctor", read=interpreter_reads(), network="forwarded", hosts=(PUBLIC,))
        enclosure = Enclosure(backend, Confinement((profile,)), place, aside=f"{place}/aside")
        try:
            free = run_command((*BASH, direct), cwd="/usr", env={}, timeout=30)
            held = run_command((*BASH, command), cwd="/usr", env={}, timeout=30, confinement=enclosure)
        except (Unenforceable, OSError) as error:
            yield failed(f"nothing can be forwarded, so the network that is approved is denied: {error}")
            return
    if free.output == "reached\n" and "reached" not in held.output and " 403 " in held.output:
        yield ok(
            "what is approved of the network is forwarded, and reaches no server on this machine that is not named"
        )
    else:
        yield failed(f"a server on this machine is reached by what is approved of the network: {held.output}", _REPORT)


def _second_wall() -> Iterator[Finding]:
    """Try what stands behind verdicts where nothing can be confined."""
    try:
        backend = landlock.find()
    except Unenforceable as why:
        yield warning(f"nor is what is allowed held by Landlock, as a second wall: {why}")
        return
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-doctor-") as base:
        project, outside = Path(base, "project"), Path(base, "outside")
        project.mkdir()
        outside.write_text("secret")
        profile = Profile("doctor", read=interpreter_reads(), write=(f"{project}/**",))
        restriction = landlock.Restriction(backend, Confinement((profile,)))
        command = "cat ../outside; echo x > ../written; echo x > written"
        try:
            result = run_command((*BASH, command), cwd=str(project), env={}, timeout=30, restriction=restriction)
        except OSError as error:
            yield failed(f"no command can be held by {backend.name} {backend.version}: {error}", _REPORT)
            return
        held = "secret" not in result.output and not Path(base, "written").exists()
        works = (project / "written").exists()
    if held and works:
        yield ok(
            f"{backend.name} {backend.version} stands behind verdicts, as a second wall (reduced): what is allowed "
            "reaches few files outside the project. No verdict counts on it"
        )
    else:
        said = "holds even what it should let through" if held else "does not hold what is allowed"
        yield failed(f"{backend.name} {backend.version} {said}: {result.output}", _REPORT)


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The same, where several that follow each other say the same to do: it is said by the last of them."""
    held: Finding | None = None
    for finding in findings:
        if held is not None:
            yield replace(held, todo="") if held.todo == finding.todo else held
        held = finding
    if held is not None:
        yield held


def _judged(what: str, does: str, attempt: _Attempt | None, protection: Protection) -> Finding:
    if attempt is None or attempt.came is None:
        why = attempt.why if attempt else "the test did not get so far"
        return failed(f"it is not known whether a command can {does}: {why}", _REPORT)
    if not attempt.came:
        return ok(f"a command can't {does}" + (f" ({attempt.why})" if attempt.why else ""))
    if what in _ROOT_ONLY and (os.geteuid() == 0 or not protection.holds):
        return warning(f"a command can {does}: it has root's rights", _OWN_USER)
    return failed(f"a command can {does}", "Don't let agents run here before this is mended.")


def _attempts(context: Context) -> dict[str, _Attempt]:
    """Run the probe as a supervised command."""
    expected = secrets.token_bytes(_LENGTH)
    held = ctypes.create_string_buffer(expected, _LENGTH)
    environ = {**context.environ, _SECRET: expected.hex()}
    with closing(_Terminal()) as terminal, tempfile.TemporaryFile() as file:
        file.write(expected)
        file.flush()
        wanted = {
            "pid": os.getpid(),
            "address": ctypes.addressof(held),
            "length": _LENGTH,
            "expected": expected.hex(),
            "file": file.fileno(),
            "key": str(key_path()),
            "store": str(default_store_path()),
            "typing": terminal.name,
            "secret": _SECRET,
        }
        attack = (os.path.realpath(sys.executable), "-I", "-S", probe.__file__)
        result = run_command(
            (*BASH, 'exec "$@"', "probe", *attack, json.dumps(wanted)),
            cwd="/",
            env=command_environment(environ),
            timeout=60,
        )
    found = {}
    for line in result.output.splitlines():
        with suppress(ValueError, TypeError, KeyError):
            said = json.loads(line)
            found[said["what"]] = _Attempt(said["came"], said["why"])
    return found


class _Terminal:
    """A terminal that nobody sits at, to be typed into."""

    def __init__(self) -> None:
        self._master, self._slave = os.openpty()
        self.name = os.ttyname(self._slave)

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


def _spellings() -> list[dict[str, Any]]:
    """The commands, with this user's own paths."""
    import yaml

    key, store = str(key_path()), str(default_store_path())
    code = {
        "read_key": f"print(open({key!r}).read())",
        "write_store": f"import sqlite3; sqlite3.connect({store!r}).execute('DELETE FROM vote')",
    }
    places: Mapping[str, Any] = {
        "key": key,
        "store": store,
        "data": str(data_folder()),
        "config": str(config_folder()),
        "pid": str(os.getpid()),
        **code,
    }
    words = {name: shlex.quote(value) for name, value in places.items()}
    listed = yaml.safe_load(Path(__file__).with_name("forbidden_commands.yaml").read_text(encoding="utf-8"))
    return [{**each, "command": each["command"].format_map(words)} for each in listed]
