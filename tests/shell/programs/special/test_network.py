"""What curl -O and wget call what they download."""

import pytest

from humanlayer_agent.shell import analyse


def written(command: str) -> list[tuple[str | None, bool]]:
    commands = analyse(command, cwd="/p", environ={"HOME": "/h"}).commands
    return [(e.operand, e.resolved) for c in commands for e in c.effects if e.kind == "write"]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("wget https://example.org/a/b.tgz", ["/p/b.tgz"]),
        ("wget -qc example.org/b.tgz", ["/p/b.tgz"]),
        ("wget https://example.org http://example.org/a/", ["/p/index.html", "/p/index.html"]),
        ("wget -P ../d -P d https://example.org/b", ["/p/d/b"]),
        ("curl -LO 'https://example.org/a/b.tgz?c=d#e'", ["/p/b.tgz"]),
        ("curl -sSO --url https://example.org/.npmrc", ["/p/.npmrc"]),
        ("curl --remote-name-all https://example.org/{a,b}", ["/p/a", "/p/b"]),
        ("wget -O- https://example.org/b", []),
        ("curl https://example.org/b", []),
    ],
)
def test_it_is_what_the_address_ends_with(command: str, names: list[str]) -> None:
    assert written(command) == [(name, True) for name in names]


@pytest.mark.parametrize(
    "command",
    [
        "wget https://example.org/b?c", "wget https://example.org/%2e%2e%2fb", "wget https://example.org/a/..", "wget ftp://example.org/b",
        "wget -r https://example.org/b", "wget -x https://example.org/b", "wget -i urls", "wget --content-disposition https://example.org/b",
        "wget --trust-server-names https://example.org/b", "wget --config=x https://example.org/b", 'wget "$url"', "wget $options https://example.org/b",
        "curl -OJ https://example.org/b", "curl -O https://example.org", "curl -O 'https://example.org/[1-3]'", 'curl -O "https://example.org/$name"',
        "curl -O -K x https://example.org/b",
    ],
)  # fmt: skip
def test_else_it_may_be_anything_in_the_folder(command: str) -> None:
    assert ("/p", False) in written(command)


def test_addresses_from_a_file_are_of_hosts_that_nobody_knows() -> None:
    (command,) = analyse("wget -i urls", cwd="/p", environ={"HOME": "/h"}).commands
    assert [(e.operand, e.resolved) for e in command.effects if e.kind == "network"] == [(None, False)]
