"""What a confinement lets through, by its path sets alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.confine.confinement import Confinement, Profile, pattern

PROJECT = Profile(
    "project",
    read=("/usr/**", "/etc/hosts"),
    write=("/srv/app/**", "/tmp/**"),
    protect=("/srv/app/.git/**", "/srv/app/**/.envrc"),
    hide=("/srv/app/**/.env", "/usr/share/secret"),
)
REPOSITORY = Profile("repository", write=("/srv/app/**",), protect=("/srv/app/**/.git/hooks/**", "/srv/app/**/.envrc"))
BOTH = Confinement((PROJECT, REPOSITORY))


@pytest.mark.parametrize(
    ("path", "reads", "writes"),
    [
        ("/usr/bin/ls", True, False),
        ("/usr", True, False),
        ("/usrlocal", False, False),
        ("/etc/hosts", True, False),
        ("/etc/hosts/x", False, False),
        ("/srv/app", True, True),
        ("/srv/app/src/x.py", True, True),
        ("/srv/app/.git/index", True, False),
        ("/srv/app/.git", True, False),
        ("/srv/app/.envrc", True, False),
        ("/srv/app/a/b/.envrc", True, False),
        ("/srv/app/.env", False, False),
        ("/srv/app/a/.env", False, False),
        ("/srv/app/.env.example", True, True),
        ("/usr/share/secret", False, False),
        ("/srv/other", False, False),
        ("/", False, False),
    ],
)
def test_one_profile(path: str, reads: bool, writes: bool) -> None:
    assert (PROJECT.reads(path), PROJECT.writes(path)) == (reads, writes)


@pytest.mark.parametrize(
    ("path", "writes"),
    [
        ("/srv/app/.git/index", True),  # the one protects it, the other lets it be written
        ("/srv/app/.git/hooks/pre-commit", False),
        ("/srv/app/sub/.git/hooks/pre-commit", True),  # the first does not protect it
        ("/srv/app/.envrc", False),
        ("/srv/app/.env", True),  # the second hides nothing
    ],
)
def test_a_union_is_what_any_of_them_lets_through(path: str, writes: bool) -> None:
    assert BOTH.writes(path) is writes
    assert Confinement((REPOSITORY, PROJECT)).writes(path) is writes


def test_a_union_has_the_widest_network_and_every_name_once() -> None:
    assert BOTH.network == "none"
    assert Confinement((PROJECT, REPOSITORY, Profile("open", network="host"), PROJECT)).network == "host"
    assert Confinement((PROJECT, REPOSITORY, PROJECT)).name == "project + repository"


def test_the_digest_says_what_is_reachable() -> None:
    assert Confinement((PROJECT,)).digest == Confinement((PROJECT,)).digest
    others = [BOTH, Confinement((REPOSITORY,)), Confinement((Profile("project", network="host"),))]
    assert len({each.digest for each in (Confinement((PROJECT,)), *others)}) == 4


def test_the_digest_is_made_once_for_all_commands_that_run_in_it() -> None:
    again = Confinement((replace(PROJECT),))
    assert again.digest is Confinement((PROJECT,)).digest


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": ("usr",)}, {"read": ("/usr/../etc",)}, {"read": ("/usr/",)}, {"write": ("/a\0b",)}, {"read": ("/u*",)},
        {"write": ("/srv/**/x",)}, {"hide": (".env",)}, {"network": "some"},
    ],
)  # fmt: skip
def test_mistakes(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="confinement wrong"):
        Profile("wrong", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has a profile"):
        Confinement(())


@given(
    st.lists(st.text("ab.*?[(+", min_size=1, max_size=4).filter(lambda n: n not in (".", "..")), min_size=1, max_size=4)
)
def test_a_plain_path_matches_itself_alone(names: list[str]) -> None:
    path = "/" + "/".join(n.replace("*", "x").replace("?", "y") for n in names)
    assert pattern(path).fullmatch(path)
    assert not pattern(path).fullmatch(path + "x")
    assert not pattern(path).fullmatch(path + "/x")
    assert pattern(path + "/**").fullmatch(path + "/x/y\nz")
    assert pattern("/**").fullmatch(path)
