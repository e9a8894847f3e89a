"""Hooks whose store is on a server: each machine has a home and a process that judges of its own, and one log for all."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from humanlayer_agent.hooks import client, log_proof
from humanlayer_agent.store.postgres.postgres_store import make_store
from humanlayer_agent.store.postgres.structure import ROLES
from tests.hooks.conftest import HOOK, Machine, Waiting
from tests.support.keys import make_key
from tests.support.postgres import LocalServer, local_server

_TEAM = """\
version: 1
signers: ["KEY"]
people: {me: {os_user: "USER"}}
channels: {terminal: {type: terminal}}
routes: {default: {approvers: [me], solo: true, steps: [{to: terminal}]}}
"""
_CHANNELS = ".config/humanlayer-agent/channels.yaml"


@pytest.fixture(scope="module")
def url(postgres: LocalServer) -> Iterator[str]:
    """The address of a store with its roles, and somebody who logs in with each."""
    with postgres.new_store() as made:
        make_store(made)
        for part, name in ROLES.items():
            with suppress(psycopg.errors.DuplicateObject):
                postgres.administer(f"CREATE ROLE one_{part} LOGIN IN ROLE {name}")
        yield made


@pytest.fixture(scope="module")
def approver(url: str, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The machine of who approves: the signing key is here, and nowhere else."""
    made = Machine(tmp_path_factory.mktemp("approver"), store=url.replace("user=postgres", "user=one_approver"))
    key = make_key(made.home / ".local/share/humanlayer-agent/signing.key").fingerprint
    (made.home / _CHANNELS).parent.mkdir(parents=True)
    (made.home / _CHANNELS).write_text(_TEAM.replace("KEY", key).replace("USER", str(os.getuid())))
    (made.home / _CHANNELS).chmod(0o600)
    return made


@pytest.fixture(scope="module")
def agent(url: str, approver: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The machine of an agent, whose role can't record an answer. Its channels file names the approver's key."""
    made = Machine(tmp_path_factory.mktemp("agent"), store=url.replace("user=postgres", "user=one_agent"))
    (made.home / _CHANNELS).parent.mkdir(parents=True)
    shutil.copy(approver.home / _CHANNELS, made.home / _CHANNELS)
    yield made
    made.end()


def test_what_a_policy_says_is_proved_by_the_servers_log(agent: Machine, url: str) -> None:
    assert agent.bash("ls").verdict == "allow"
    answered = agent.bash("grep -n x a.py")
    assert (answered.code, answered.verdict, answered.err) == (0, "allow", "")
    assert agent.bash("hla requests approve 42").verdict == "deny"
    assert agent.bash("curl https://x.invalid/a").verdict == "ask"
    assert agent.ask("Task", {"prompt": "x"}).verdict == ""
    told = [event["type"] for event in agent.events()]
    assert told.count("decision.evaluated") == 4
    assert told.count("exec.finished") == 2
    assert "hook.unproven" not in told
    assert not agent.store.exists()
    with closing(agent.opened(create=False)) as store:
        assert store.verify().intact


def test_who_asks_is_answered_from_another_machine(agent: Machine, approver: Machine) -> None:
    one = Waiting(agent, "claude-code", "Bash", {"command": "curl https://x.invalid/b"}, session="s-wait", program=HOOK)
    request = one.request()
    approver.approve(request.id)
    answered = one.answer()
    assert (answered.code, answered.verdict) == (0, "allow"), answered
    types = [entry.event["type"] for entry in one.store.events(request=request.id)]
    assert [t for t in types if t in ("request.approved", "permit.consumed")] == ["request.approved", "permit.consumed"]
    (vote,) = one.store.votes(request.id)
    machines = {each.removeprefix("os:").partition("/")[0] for each in (vote.approver.principal, request.requester)}
    assert len(machines) == 2, machines


def test_an_answer_that_the_servers_log_does_not_have_is_not_believed(
    agent: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in agent.env.items():
        if name.startswith(("HUMANLAYER_", "XDG_")):
            monkeypatch.setenv(name, value)
    agent.bash("ls")
    with closing(agent.opened(create=False)) as store:
        entry = next(entry for entry in store.events() if entry.event["type"] == "decision.evaluated")
    for hash in (entry.hash, "0" * 64):  # an answer to another question, and none at all
        proof = log_proof.packed_proof((entry.seq, hash), (entry.seq, hash))
        with pytest.raises(client.Unproven):
            log_proof.check(proof, question=b"q", nonce=b"n", data=b"{}", out=b"", pid=None)


def test_a_server_that_says_nothing_keeps_no_hook_beyond_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that has waited too long for its hook goes on without it."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        monkeypatch.setenv("HUMANLAYER_STORE", f"postgresql://one@127.0.0.1:{port}/hla")
        with pytest.raises(client.HookFailed, match="in time"):
            log_proof.check(b"0 x 1 y", question=b"q", nonce=b"n", data=b"{}", out=b"", pid=None, seconds=0.1)


def test_another_way_to_the_server_is_another_process_that_judges(agent: Machine) -> None:
    """A password that is in the variables of one hook is not in those of another."""
    plain = client.socket_name(agent.env)
    assert client.socket_name({**agent.env, "PGPASSFILE": "/srv/pgpass"}) != plain
    assert client.socket_name({**agent.env, "PAGER": "cat"}) == plain


@pytest.mark.long
def test_without_its_server_everything_is_denied(tmp_path: Path) -> None:
    with local_server() as server, server.new_store() as url:
        machine = Machine(tmp_path, store=url)
        try:
            assert machine.bash("ls").verdict == "allow"
            server.kill()
            for again in (False, True):
                if again:
                    machine.end()
                answered = machine.bash("ls")
                assert (answered.code, answered.refused) == (2, True)
                assert "could not judge" in answered.reason
            server.start()
            assert machine.bash("ls").verdict == "allow"
            with closing(machine.opened(create=False)) as store:
                assert store.verify().intact
        finally:
            machine.end()
