"""What a confined command reaches of the network by a forwarder, in a real bubblewrap, of real servers; and what not."""

import ipaddress
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.confine import forwarder
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable
from humanlayer_agent.confine.forwarder import addresses, host_lines, permits
from humanlayer_agent.confine.hosts import Allowed
from humanlayer_agent.confine.proof import interpreter_reads
from humanlayer_agent.processes.execution import CommandResult, run_command
from humanlayer_agent.testing.patience import until
from tests.confine.conftest import PYTHON
from tests.support import children, loopback_servers

VERSION_6 = os.path.exists("/proc/net/if_inet6")
ASKING = "Ask for it by a first line such as `# needs: network HOST:PORT`."
PROXY = "127.127.127.127", 880


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """The ports of servers that are not ours: those of the very supervisor are never reached."""
    program = [sys.executable, loopback_servers.__file__]
    with children.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        found: dict[str, int] = json.loads(process.stdout.readline())
        yield found
        process.stdin.close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


Run = Callable[..., CommandResult]


@pytest.fixture
def run(backend: Bubblewrap, scene: Path) -> Run:
    """Runs a Python program in the project, which reaches `hosts`; without any, the whole network."""

    def run(program: str, *hosts: str, given: object = None, timeout: float = 300, **more: Any) -> CommandResult:
        network: Any = {"network": "forwarded", "hosts": hosts} if hosts else {"network": "host"}
        reads = (*interpreter_reads(), "/etc/hosts", *more.pop("read", ()))
        profile = Profile("web", read=reads, write=(f"{scene}/project/**",), **network)
        enclosure = Enclosure(backend, Confinement((profile,)), str(scene / "tmp"), str(scene / "aside"))
        argv = more.pop("argv", None) or (PYTHON, "-I", "-S", "-c", program, json.dumps(given))
        env = {"PATH": os.environ["PATH"], "HOME": f"{scene}/project"} | more
        return run_command(argv, cwd=f"{scene}/project", env=env, timeout=timeout, confinement=enclosure)

    return run


CLIENT = """
import json, os, socket, sys
given = json.loads(sys.argv[1])
def exchange(place, text, close=False):
    with socket.create_connection(tuple(place), timeout=60) as own:
        own.sendall(text.encode("latin-1"))
        if close:
            own.shutdown(socket.SHUT_WR)
        said = b""
        while data := own.recv(65536):
            said += data
    return said.decode("latin-1")
"""


# ---- what is reached --------------------------------------------------------------------------------


def test_a_named_port_of_this_machine_is_reached_by_any_program(run: Run, ports: dict[str, int]) -> None:
    """By both versions of the protocol, to be closed on one side first; and much of it arrives whole."""
    program = (
        CLIENT
        + """
for place in ("localhost", "127.0.0.1", *given["version 6"]):
    text = "x" * 1_000_000 + place
    assert exchange((place, given["port"]), text, close=True) == text, place
print("done")
"""
    )
    given = {"port": ports["echo"], "version 6": ["::1"] if VERSION_6 else []}
    result = run(program, f"localhost:{ports['echo']}", given=given)
    assert (result.output, result.returncode) == ("done\n", 0)
    tried = 2 + VERSION_6
    assert result.network == {"reached": {f"localhost:{ports['echo']}": tried}}


def test_a_name_leads_through_the_proxy_of_this_machine(
    run: Run, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has an address of its own inside. So has one of another network, which stays the same."""
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:a%20b@127.0.0.1:{ports['proxy']}")
    hosts = ["db.example.org", "DB.example.org", "10.9.8.7", *(["fd12::9"] if VERSION_6 else [])]
    program = (
        CLIENT
        + """
for host in given:
    print(exchange((host, 5432), "and back", close=True))
try:
    exchange(("db.example.org", 5433), "")
except OSError as error:
    print(type(error).__name__)
"""
    )
    result = run(program, "db.example.org:5432", "10.9.8.7:5432", "[fd12::9]:5432", given=hosts)
    signed = "Basic bWU6YSBi"
    names = ["db.example.org", "db.example.org", "10.9.8.7", *(["[fd12::9]"] if VERSION_6 else [])]
    said = [f"tunnel to {name}:5432 {signed}\nand back\n" for name in names]
    assert result.output == "".join(said) + "ConnectionRefusedError\n"
    assert result.network == {"reached": {f"{name}:5432": names.count(name) for name in names}}


def test_programs_are_told_of_the_proxy(run: Run, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of what they were given: that one can't be reached from inside."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{ports['proxy']}")
    program = """
import json, urllib.request
with urllib.request.urlopen(urllib.request.Request("http://example.org/x?y", b"sent", {"X": "1"})) as answer:
    print(answer.read().decode())
"""
    argv = (PYTHON, "-I", "-c", program)
    result = run("", "*", argv=argv, http_proxy="http://nobody.example:1")
    said = json.loads(result.output)
    assert (said["line"], said["host"], said["sent"]) == ("POST http://example.org/x?y HTTP/1.1", "example.org", "sent")
    assert "x" in said["fields"]
    assert result.network == {"reached": {"example.org:80": 1}}


def test_the_variables_are_those_that_programs_read(monkeypatch: pytest.MonkeyPatch) -> None:
    told = forwarder.variables()
    url = "http://127.127.127.127:880"
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "PIP_PROXY"):
        assert told[name] == url, name
    for name in ("npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"):
        assert told[name] == url, name
    assert told["no_proxy"] == told["NO_PROXY"] == "localhost,127.0.0.1,127.0.0.0/8,::1"
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert {kind: urllib.request.getproxies()[kind] for kind in ("http", "https", "all")} == dict.fromkeys(
        ("http", "https", "all"), url
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
def test_the_proxy_of_this_machine_is_found_by_any_of_its_names(
    run: Run, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, f"http://127.0.0.1:{ports['proxy']}")
    program = (
        CLIENT
        + f"""
print(exchange({PROXY}, "GET http://example.org/x HTTP/1.1\\r\\n\\r\\n").splitlines()[0])
"""
    )
    assert run(program, "*").output == "HTTP/1.1 200 OK\n"


def test_what_this_machine_reaches_by_itself_is_not_asked_of_its_proxy(
    run: Run, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{ports['proxy']}")
    monkeypatch.setenv("NO_PROXY", ".example, 192.0.2.0/24,other.invalid:80")
    hosts = ["192.0.2.1", "a.example", "other.invalid", "b.invalid"]
    program = (
        CLIENT
        + f"""
for host in given:
    with socket.create_connection({PROXY}, timeout=2) as own:
        own.sendall(f"GET http://{{host}}/x HTTP/1.1\\r\\n\\r\\n".encode())
        try:
            print(own.recv(12).decode())
        except TimeoutError:
            print("it tries")
"""
    )
    said = run(program, *hosts, given=hosts).output.splitlines()
    assert said[3] == "HTTP/1.1 200"
    assert "HTTP/1.1 200" not in said[:3]


def test_the_proxy_serves_what_is_named_in_plain_text_and_by_tunnels(run: Run, ports: dict[str, int]) -> None:
    """Whatever the request says of its host besides, it is the one that was asked for."""
    program = (
        CLIENT
        + f"""
proxy, port = {PROXY}, given["web"]
print(exchange(proxy, f"GET http://LOCALHOST:{{port}}/x HTTP/1.1\\r\\nHost: localhost:{{given['other']}}\\r\\nConnection: close\\r\\n\\r\\n"))
print(exchange(proxy, f"CONNECT localhost:{{port}} HTTP/1.1\\r\\n\\r\\nGET /y HTTP/1.0\\r\\n\\r\\n"))
"""
    )
    result = run(program, f"localhost:{ports['web']}", given=ports)
    assert f'"port": {ports["web"]}, "line": "GET /x HTTP/1.1", "host": "localhost:{ports["web"]}"' in result.output
    assert f'"port": {ports["web"]}, "line": "GET /y HTTP/1.0"' in result.output
    assert result.network == {"reached": {f"localhost:{ports['web']}": 2}}


@pytest.mark.sample(1)
@pytest.mark.parametrize("through", ["localhost", "index.example"])
def test_pip_fetches_a_package(
    run: Run, ports: dict[str, int], scene: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """From a port of this machine that is named, and by the proxy."""
    if through == "index.example":
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{ports['proxy']}")
        hosts, index = ("*",), "http://index.example/simple"
    else:
        hosts, index = (f"localhost:{ports['index']}",), f"http://localhost:{ports['index']}/simple"
    argv = (
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--timeout",
        "300",
        "download",
        "--no-deps",
        "--no-cache-dir",
        "--index-url",
        index,
    )
    reads = (f"{sys.prefix}/**",)
    result = run("", *hosts, argv=(*argv, "--trusted-host", "index.example", "canary-package"), read=reads)
    assert result.returncode == 0, result.output
    assert (scene / "project/canary_package-1.0-py3-none-any.whl").stat().st_size > 300


@pytest.mark.long
def test_npm_asks_its_registry(run: Run, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("allowed in CI: there is no npm")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{ports['proxy']}")
    reads = (f"{Path(os.path.realpath(npm)).parents[2]}/**", f"{Path(os.path.realpath(npm)).parents[4]}/**")
    for hosts, registry in (
        (("*",), "http://index.example/"),
        ((f"localhost:{ports['index']}",), f"http://localhost:{ports['index']}/"),
    ):
        argv = (npm, "view", "--registry", registry, "canary-package", "version")
        result = run("", *hosts, argv=argv, read=reads, npm_config_cache="/tmp/npm", npm_config_update_notifier="false")
        assert (result.output.strip(), result.returncode) == ("1.2.3", 0)


# ---- what is not ------------------------------------------------------------------------------------

ATTACKS = (
    CLIENT
    + """
web, other, udp, host = given["web"], given["other"], given["udp"], given["host"]
def connect(family, address):
    with socket.socket(family) as own:
        own.settimeout(20)
        own.connect(address)
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(2)
        own.sendto(b"x", ("127.0.0.1", udp))
        assert own.recv(64) == b"answered"
def proxied(text):
    said = exchange(given["proxy"], text)
    assert f'"port": {other},' in said, said[-300:]
tries = {
    "by its address": lambda: connect(socket.AF_INET, ("127.0.0.1", other)),
    "by another of its addresses": lambda: connect(socket.AF_INET, ("127.0.0.2", other)),
    "by no address": lambda: connect(socket.AF_INET, ("0.0.0.0", other)),
    "by that of the proxy": lambda: connect(socket.AF_INET, ("127.127.127.127", other)),
    "without a path": lambda: connect(socket.AF_UNIX, "\\0hla-forwarder-%d" % given["pid"]),
    "by datagrams": datagram,
}
names = ["localhost", "LOCALHOST.", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0"]
names += ["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.9", "x.localhost", host, "localhost%00", "localhost#"]
for name in names:
    for port in (other, f"0{other}", f"{other}#"):
        place = f"{name}:{port}"
        tries["a tunnel to " + place] = lambda p=place: proxied(f"CONNECT {p} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.0\\r\\n\\r\\n")
        tries["a request to " + place] = lambda p=place: proxied(f"GET http://{p}/ HTTP/1.1\\r\\nHost: {p}\\r\\n\\r\\n")
for name, text in {
    "a host beside another": f"GET http://localhost:{web}/ HTTP/1.1\\r\\nHost: localhost:{other}\\r\\n\\r\\n",
    "a name before it": f"GET http://localhost:{web}@localhost:{other}/ HTTP/1.1\\r\\n\\r\\n",
    "a tunnel with a name before it": f"CONNECT localhost:{web}@localhost:{other} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.0\\r\\n\\r\\n",
    "a second request": f"GET http://localhost:{web}/ HTTP/1.1\\r\\n\\r\\nGET http://localhost:{other}/ HTTP/1.1\\r\\n\\r\\n",
    "a request in a body": f"POST http://localhost:{web}/ HTTP/1.1\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET http://localhost:{other}/ HTTP/1.1\\r\\n\\r\\n",
    "a field in a field": f"GET http://localhost:{web}/ HTTP/1.1\\r\\nX: y\\nHost: localhost:{other}\\r\\n\\r\\n",
    "a relative request": f"GET / HTTP/1.1\\r\\nHost: localhost:{other}\\r\\n\\r\\n",
    "a path like a host": f"GET http://localhost:{web}//localhost:{other}/ HTTP/1.1\\r\\n\\r\\n",
    "another scheme": f"GET ftp://localhost:{other}/ HTTP/1.1\\r\\n\\r\\n",
}.items():
    tries[name] = lambda t=text: proxied(t)
said = {}
for name, attempt in tries.items():
    try:
        attempt()
        said[name] = None
    except (OSError, AssertionError) as error:
        said[name] = "%s: %s" % (type(error).__name__, error)
print(json.dumps(said))
"""
)


def test_no_other_server_of_this_machine_is_reached(run: Run, ports: dict[str, int]) -> None:
    """While the whole web is, and one port of this machine."""
    given = {**ports, "proxy": PROXY, "host": socket.gethostname()}
    result = run(ATTACKS, "*", f"localhost:{ports['web']}", given=given)
    said = json.loads(result.output)
    assert {name for name, why in said.items() if why is None} == set()
    assert len(said) > 100


def test_with_the_network_of_the_machine_they_are_reached(run: Run, ports: dict[str, int]) -> None:
    """Else that they fail would tell nothing."""
    said = json.loads(run(ATTACKS, given={**ports, "proxy": PROXY, "host": "localhost"}).output)
    ways = ("by its address", "by another of its addresses", "by no address", "without a path", "by datagrams")
    assert said["by another of its addresses"] == said["by that of the proxy"]  # it listens on 127.0.0.1 alone
    assert [name for name in ways if said[name] is None] == [
        "by its address",
        "by no address",
        "without a path",
        "by datagrams",
    ]


def test_addresses_are_checked_and_not_names(run: Run) -> None:
    """At a port that every web server has: what keeps these is where they lead."""
    own = own_address()
    hosts = ["127.0.0.1", "2130706433", "0x7f.1", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]"]
    hosts += ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1"]
    hosts += [
        "224.0.0.1",
        "[ff02::1]",
        "255.255.255.255",
        "240.0.0.1",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a00:1]",
    ]
    hosts += [
        "localhost",
        "a.localhost",
        "168.63.129.16",
        "100.100.100.200",
        "[fc00::1]",
        "192.0.2.1",
        *([own] if own else []),
    ]
    program = (
        CLIENT
        + f"""
for host in given:
    print(exchange({PROXY}, f"CONNECT {{host}}:80 HTTP/1.1\\r\\n\\r\\n").splitlines()[-1])
"""
    )
    result = run(program, "*", given=hosts)
    for host, said in zip(hosts, result.output.splitlines(), strict=True):
        assert "may not reach" in said, (host, said)
    assert "reached" not in result.network


def test_ports_of_other_services_are_refused(run: Run) -> None:
    program = (
        CLIENT
        + f"""
for port in (22, 25, 5432, 8080, 0, 65536, "", "http"):
    said = exchange({PROXY}, f"CONNECT example.org:{{port}} HTTP/1.1\\r\\n\\r\\n")
    assert said.startswith("HTTP/1.1 403"), said
print("refused")
"""
    )
    assert run(program, "*").output == "refused\n"


def test_a_proxy_of_this_machine_leads_nowhere_else(
    run: Run, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks names up by itself, so those that mean something only here are kept from it."""
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{ports['proxy']}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{ports['proxy']}")
    hosts = [
        "metadata.google.internal",
        "printer",
        "nas.local",
        "localhost",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "0x7f.1",
    ]
    program = (
        CLIENT
        + f"""
for host in given:
    for text in (f"CONNECT {{host}}:80 HTTP/1.1\\r\\n\\r\\n", f"GET http://{{host}}/ HTTP/1.1\\r\\n\\r\\n"):
        said = exchange({PROXY}, text)
        assert said.startswith("HTTP/1.1 403"), (host, said)
twice = "GET http://example.org/1 HTTP/1.1\\r\\n\\r\\nGET http://10.0.0.1/2 HTTP/1.1\\r\\n\\r\\n"
said = exchange({PROXY}, twice)
assert "example.org/1" in said and "10.0.0.1" not in said, said
print("refused")
"""
    )
    assert run(program, "*", given=hosts).output == "refused\n"


def test_what_can_not_be_reached_is_told_from_what_may_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    program = (
        CLIENT
        + f"""
for text in ("CONNECT 192.0.2.1:443 HTTP/1.1\\r\\n\\r\\n", "GET http://192.0.2.1/ HTTP/1.1\\r\\n\\r\\n"):
    print(exchange({PROXY}, text).splitlines()[0])
"""
    )
    result = run(program, "192.0.2.1")
    assert result.output == "HTTP/1.1 502 Bad Gateway\n" * 2
    assert result.network == {}


def test_what_the_supervisor_itself_serves_is_never_reached(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            CLIENT
            + f"""
try:
    print(repr(exchange(("127.0.0.1", given), "x")))
except ConnectionError:
    print("''")
print(exchange({PROXY}, f"CONNECT 127.0.0.1:{{given}} HTTP/1.1\\r\\n\\r\\n").splitlines()[-1])
"""
        )
        result = run(program, f"127.0.0.1:{port}", given=port)
    assert result.output == f"''\nhumanlayer-agent: 127.0.0.1:{port} is where the supervisor listens. {ASKING}\n"
    assert result.network == {"refused": {f"127.0.0.1:{port}": 2}}


def test_what_is_known_of_the_outside_stays_there(run: Run, ports: dict[str, int]) -> None:
    """No descriptor, process or namespace of the forwarder's is in reach, and its places are taken."""
    program = """
import os, socket, sys
print(sorted(os.listdir("/proc/self/fd"))[:3], [p for p in os.listdir("/proc") if p.isdigit() and b"forwarder" + b" import main" in open(f"/proc/{p}/cmdline", "rb").read()])
for place in (("127.127.127.127", 880), ("0.0.0.0", 880), ("127.0.0.1", int(sys.argv[1]))):
    for kind in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        with socket.socket() as own:
            if kind:
                own.setsockopt(socket.SOL_SOCKET, kind, 1)
            try:
                own.bind(place)
                own.listen()
                print("taken over")
            except OSError as error:
                assert error.errno in (13, 98), error
"""
    assert run(program, f"localhost:{ports['web']}", given=ports["web"]).output == "['0', '1', '2'] []\n"


# ---- hostile clients, and the end -------------------------------------------------------------------


@pytest.mark.long
def test_a_hostile_client_harms_nobody_but_itself(run: Run, ports: dict[str, int]) -> None:
    """More connections than there may be, heads that never end, and what is no request at all."""
    program = (
        CLIENT
        + f"""
import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
proxy, idle = {PROXY}, []
for text in ("x" * 100_000, "GET http://localhost/ HTTP/1.1\\r\\n" + "X: y\\r\\n" * 20_000, "\\0\\r\\n\\r\\n", "\\x16\\x03\\x01\\r\\n\\r\\n",
             "GET http://localhost/ HTTP/1.1\\r\\nContent-Length: -1\\r\\n\\r\\n", "CONNECT : HTTP/1.1\\r\\n\\r\\n", "CONNECT \\xff:80 HTTP/1.1\\r\\n\\r\\n",
             "GET http://[::1/ HTTP/1.1\\r\\n\\r\\n", "GET http:// HTTP/1.1\\r\\n\\r\\n", "CONNECT " + "a." * 9000 + ":80 HTTP/1.1\\r\\n\\r\\n"):
    try:
        said = exchange(proxy, text)
    except ConnectionError:
        said = ""
    assert said == "" or said.startswith("HTTP/1.1 403"), said
for n in range(500):
    own = socket.socket()
    own.settimeout(20)
    own.connect(proxy)
    own.send(b"GET http://")
    idle.append(own)
closed = 0
for own in idle[300:]:
    try:
        closed += own.recv(1) == b""
    except ConnectionError:
        closed += 1
print(closed)
for own in idle:
    own.close()
while True:
    try:
        said = exchange(("localhost", given), "still there", close=True)
    except ConnectionError:
        said = ""
    if said:
        break
    time.sleep(0.05)
print(said)
"""
    )
    result = run(program, f"localhost:{ports['echo']}", given=ports["echo"])
    assert result.output == "200\nstill there\n", result.output


def test_who_reads_nothing_may_go_on_sending() -> None:
    """A program that sends all before it reads an answer: its connection does not end because it is full one way."""
    client, near = socket.socketpair()
    far, server = socket.socketpair()
    answer = b"a" * 8_000_000  # more than all on the way to the client holds
    work = [threading.Thread(target=forwarder._pump, args=(near, far), daemon=True)]
    work += [threading.Thread(target=server.sendall, args=(answer,), daemon=True)]
    for each in work:
        each.start()
    client.settimeout(60)
    server.settimeout(60)
    for n in range(2_000):
        client.sendall(b"%04d" % n)
        assert server.recv(4, socket.MSG_WAITALL) == b"%04d" % n
    left = len(answer)
    while left > 0:
        piece = client.recv(1 << 20)
        assert piece
        left -= len(piece)
    client.close()
    server.close()
    for each in work:
        each.join(60)
        assert not each.is_alive()


def test_nothing_is_left_when_the_command_ends(run: Run, ports: dict[str, int]) -> None:
    """Even where it leaves connections open, which nobody reads."""
    run("", f"localhost:{ports['echo']}")  # what is made once
    before = sorted(os.listdir("/proc/self/fd")), forwarders()
    program = (
        CLIENT
        + """
own = socket.create_connection(("localhost", given))
own.setblocking(False)
try:
    while True:
        own.send(b"x" * 65536)
except BlockingIOError:
    pass
if os.fork() == 0:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pause()
"""
    )
    assert run(program, f"localhost:{ports['echo']}", given=ports["echo"]).returncode == 0
    assert (sorted(os.listdir("/proc/self/fd")), forwarders()) == before


@pytest.mark.long
def test_it_ends_at_the_time_out(run: Run, ports: dict[str, int]) -> None:
    before = forwarders()
    program = CLIENT + "exchange(('localhost', given), 'x')"
    assert run(program, f"localhost:{ports['echo']}", given=ports["echo"], timeout=3).timed_out
    assert forwarders() == before


def test_it_ends_with_the_supervisor(backend: Bubblewrap, scene: Path, ports: dict[str, int]) -> None:
    """Killed, so that nobody can say that it is over."""
    program = f"""
import json, sys
from tests.confine.test_forwarder import CLIENT, PYTHON
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.proof import interpreter_reads
from humanlayer_agent.processes.execution import run_command
hosts = ("localhost:{ports["echo"]}",)
profile = Profile("web", read=interpreter_reads(), write=("{scene}/project/**",), network="forwarded", hosts=hosts)
enclosure = Enclosure(Bubblewrap({backend.path!r}, {backend.version!r}), Confinement((profile,)), "{scene}/tmp", "{scene}/aside")
client = CLIENT + "open('there', 'w').close(); exchange(('localhost', given), 'x')"
run_command((PYTHON, "-I", "-S", "-c", client, "{ports["echo"]}"), cwd="{scene}/project", env={{}}, timeout=600, confinement=enclosure)
"""
    with children.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[2]) as supervisor:
        until((scene / "project/there").exists, "the command to run")
        (started,) = forwarders(supervisor.pid)
        watch = os.pidfd_open(started)
        supervisor.send_signal(signal.SIGKILL)
    with open(watch, "rb", closefd=True):
        until(lambda: select.select([watch], [], [], 0)[0], "the end of the forwarder")


def forwarders(of: int = 0) -> set[int]:
    """The forwarders that a process has started, or we have."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            parent = path.with_name("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == (of or os.getpid()) and b"forwarder import main" in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def test_where_nothing_can_forward_it_does_not_start(run: Run, monkeypatch: pytest.MonkeyPatch, scene: Path) -> None:
    monkeypatch.setattr(forwarder.sys, "executable", "/bin/false")
    with pytest.raises(Unenforceable, match="its connections can't be forwarded: nothing forwards connections"):
        run("open('ran', 'w')", "*")
    assert not (scene / "project/ran").exists()
    monkeypatch.undo()
    with pytest.raises(OSError, match="it is the machine's"):
        forwarder.started(os.getpid(), ["*"], {})
    with pytest.raises(OSError, match="No such file"):
        forwarder.started(1 << 30, ["*"], {})


# ---- what may be reached ----------------------------------------------------------------------------


def own_address() -> str | None:
    """An address of this machine that is not only its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, suppress(OSError):
        own.connect(("192.0.2.1", 9))
        found: str = own.getsockname()[0]
        return found
    return None


@pytest.mark.parametrize(
    ("address", "by_all", "by_name"),
    [
        ("93.184.216.34", True, True), ("2606:2800:220:1::1", True, True), ("10.1.2.3", False, True), ("192.168.0.1", False, True),
        ("100.64.0.1", False, True), ("fd12::1", False, True), ("127.0.0.1", False, False), ("::1", False, False), ("0.0.0.0", False, False),
        ("169.254.169.254", False, False), ("fe80::1", False, False), ("224.0.0.1", False, False), ("ff02::1", False, False), ("fd00:ec2::254", False, False),
    ],
)  # fmt: skip
def test_where_a_name_may_lead(address: str, by_all: bool, by_name: bool) -> None:
    """Never to this machine, whatever a name server says."""
    place = ipaddress.ip_address(address)
    assert permits(Allowed.of(["*"]), "example.org", 443, place) is by_all
    assert permits(Allowed.of(["example.org:443"]), "example.org", 443, place) is by_name
    assert permits(Allowed.of(["example.org:443"]), "example.org", 80, place) is False
    assert permits(Allowed.of(["localhost:443"]), "localhost", 443, place) is (
        place.is_loopback or place.is_unspecified or by_name
    )


def test_an_address_of_this_machine_is_reached_where_it_is_named_itself() -> None:
    own = own_address()
    if own is None or ipaddress.ip_address(own).is_loopback:
        pytest.skip("allowed in CI: this machine is alone")
    assert addresses(own, 3000, Allowed.of([f"{own}:3000"])) == [own]
    assert not permits(Allowed.of(["example.org:3000", "*"]), "example.org", 3000, ipaddress.ip_address(own))


def test_a_name_for_this_machine_is_not_looked_up() -> None:
    assert addresses("localhost", 80, Allowed.of(["localhost"])) == ["127.0.0.1", "::1"]
    assert addresses("0.0.0.0", 80, Allowed.of(["0.0.0.0"])) == ["127.0.0.1"]
    assert addresses("127.1", 80, Allowed.of(["127.0.0.1"])) == ["127.0.0.1"]


def test_the_names_of_this_machine_are_known_inside() -> None:
    known = "# x\n127.0.1.1 box box.example # y\n::1 six\n10.0.0.1 other\n127.0.0.1 localhost db\nnonsense\n\n1 2\n"
    assert host_lines(["db:1", "10.0.0.2:1", "a.example"], known).splitlines() == [
        *("127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback", "127.127.0.2 a.example", "127.127.0.3 db"),
        *("127.0.1.1 box box.example", "::1 six"),
    ]
