"""Which hosts entries of a confinement mean."""

import pytest

from humanlayer_agent.confine.confinement import Profile
from humanlayer_agent.confine.hosts import Allowed, is_here, parsed, plain


@pytest.mark.parametrize(
    "entry", ["", "a b", "a:b", "a:0", "a:70000", "http://a", "a/b", "*.a", "[a]:1", "[::1]x", "a:1:2", "-a", "a:٣"]
)
def test_entries_that_are_none(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Allowed.of([entry])
    with pytest.raises(ValueError, match="confinement x: "):
        Profile("x", network="forwarded", hosts=(entry,))


def test_a_network_has_hosts_only_where_it_is_forwarded() -> None:
    for network, hosts in (("none", ("*",)), ("host", ("a",)), ("forwarded", ())):
        with pytest.raises(ValueError, match="hosts are what a forwarded network leads to"):
            Profile("x", network=network, hosts=hosts)  # type: ignore[arg-type]


def test_an_address_is_one_however_it_is_written() -> None:
    for host in ("127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "::ffff:127.0.0.1", "::FFFF:7f00:1"):
        assert (plain(host), is_here(host)) == ("127.0.0.1", True), host
    assert parsed("[::FFFF:7f00:1]:80") == ("127.0.0.1", (80,))
    names = ("localhost", "a.localhost", "LOCALHOST.", "127.9.9.9", "::1", "0", "::", "0.0.0.0")
    assert [host for host in names if not is_here(host)] == []
    assert [
        host
        for host in ("example.org", "10.0.0.1", "localhost.example", "cafe.de", "127", "1.2.3.4.5")
        if is_here(host)
    ] == []


def test_what_is_named_is_named_for_its_port_alone() -> None:
    allowed = Allowed.of(["db.example:5432", "web.example", "[fd12::1]:1"])
    for host, port in (("DB.example.", 5432), ("web.example", 80), ("web.example", 443), ("FD12::1", 1)):
        assert allowed.has(host, port), host
    for host, port in (("db.example", 443), ("x.db.example", 5432), ("web.example", 8080), ("other.example", 443)):
        assert not allowed.has(host, port), host
