"""Who has the other end of a real connection."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from humanlayer_agent.channels.web.sessions import caller

OURS = f"user {os.getuid()}, session {os.getsid(0)}"


@pytest.fixture(params=["127.0.0.1", "::1"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with closing(socket.socket(family)) as made:
        try:
            made.bind((request.param, 0))
        except OSError as error:
            pytest.skip(f"no {request.param} here: {error}")
        made.listen()
        yield made


def said(listener: socket.socket) -> tuple[socket.socket, tuple[str, int], tuple[str, int]]:
    taken, client = listener.accept()
    return taken, client[:2], taken.getsockname()[:2]


def test_a_socket_of_ours(listener: socket.socket) -> None:
    with closing(socket.create_connection(listener.getsockname()[:2])):
        taken, client, server = said(listener)
        with closing(taken):
            assert caller(client, server) == OURS


def test_a_socket_for_both_kinds_of_addresses(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    with closing(socket.socket(socket.AF_INET6)) as both:
        try:
            both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            both.connect((f"::ffff:{host}" if "." in host else host, port))
        except OSError as error:
            pytest.skip(f"no such sockets here: {error}")
        taken, client, server = said(listener)
        with closing(taken):
            assert caller(client, server) == OURS


def test_a_process_in_a_session_of_its_own(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    command = f"exec 3<>/dev/tcp/{host}/{port}; read -r <&3"
    with subprocess.Popen(["bash", "-c", command], start_new_session=True) as other:
        taken, client, server = said(listener)
        with closing(taken):
            assert caller(client, server) == f"user {os.getuid()}, session {other.pid}"
            taken.sendall(b"\n")


def test_a_socket_that_nobody_has_any_more(listener: socket.socket) -> None:
    """Nobody else's wrong codes count with those: the kernel says that it is root's."""
    gone = socket.create_connection(listener.getsockname()[:2])
    taken, client, server = said(listener)
    gone.close()
    with closing(taken):
        assert caller(client, server) == listener.getsockname()[0]
