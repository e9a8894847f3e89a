"""What lies in a set of paths: no, maybe, yes."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.path_patterns import Links, PathSet, fill, folded
from humanlayer_agent.policy.conditions.pattern_overlap import overlap
from humanlayer_agent.policy.conditions.word_patterns import components_match
from humanlayer_agent.shell import Effect


def effect(operand: str | None, **more: object) -> Effect:
    return Effect("read", "operand", operand, operand is not None and not more.get("below"), (0, 1), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("/a/**", ["/a", "/a/b", "/a/b/c", "/a/.b"], ["/", "/ab", "/b/a"]),
        ("/a/*", ["/a/b"], ["/a", "/a/b/c"]),
        ("**/.env", ["/.env", "/a/.env", "/a/b/.env"], ["/a/.envx", "/a/x.env", "/.env/x"]),
        ("**/.ssh/**", ["/.ssh", "/h/.ssh/id", "/h/.ssh"], ["/h/ssh/id", "/h/.sshx/id"]),
        ("/a/*/c?", ["/a/b/cd"], ["/a/b/c", "/a/b/b/cd"]),
        ("/a/**/z", ["/a/z", "/a/b/c/z"], ["/a", "/az", "/z"]),
        ("/dev/sd*", ["/dev/sda", "/dev/sd"], ["/dev/x", "/dev/sda/b"]),
        ("/a.b/**", ["/a.b/c"], ["/axb/c"]),
        ("/", ["/"], ["/a"]),
    ],
)
def test_patterns(pattern: str, inside: list[str], outside: list[str]) -> None:
    paths = PathSet([pattern], {})
    assert [p for p in inside if not paths.has(p)] == []
    assert [p for p in outside if paths.has(p)] == []


@given(st.lists(st.sampled_from(["${A}", "${B_1}", "${b}", "${", "}", "$", "{", "~", "/", "x", "${A"]), max_size=5))
def test_every_variable_is_filled_in(parts: list[str]) -> None:
    text = "".join(parts)
    values = {"A": "/a", "B_1": "/b", "HOME": "/h", "b": "no name of ours"}
    home = "${HOME}" + text[1:] if text == "~" or text.startswith("~/") else text
    assert fill(text, values) == re.sub(r"\$\{([A-Z0-9_]+)\}", lambda m: values[m[1]], home)


def test_variables_and_home() -> None:
    paths = PathSet(["${PROJECT}/**", "~/x"], {"PROJECT": "/p", "HOME": "/h"})
    assert paths.has("/p/a")
    assert paths.has("/h/x")
    with pytest.raises(PolicyError, match=r"'\$\{NONE\}/x': the variable NONE is not known; known: HOME"):
        fill("${NONE}/x", {"HOME": "/h"})
    with pytest.raises(PolicyError, match="a path pattern begins with"):
        PathSet(["a/b"], {})


@pytest.mark.parametrize(
    ("touched", "some", "every"),
    [
        (effect("/p/a"), YES, YES),
        (effect("/q/a"), NO, NO),
        (effect("/p/../q/a"), NO, NO),
        (effect("/q/../p/a"), YES, YES),
        (effect(None), MAYBE, MAYBE),
        (effect("/p/a", below=True), MAYBE, YES),
        (effect("/q", below=True), NO, MAYBE),
        (effect("/", below=True), MAYBE, MAYBE),
        (effect("/p/a", pattern="/p/a/*"), YES, YES),
        (effect("/q", pattern="/q/*"), NO, NO),
        (effect("/", pattern="/*"), MAYBE, MAYBE),
        (effect("/", recursive=True), MAYBE, NO),
        (effect("/p", recursive=True), YES, YES),
        (effect("/q", recursive=True), NO, NO),
    ],
)
def test_effects_against_a_tree(touched: Effect, some: int, every: int) -> None:
    paths = PathSet(["/p/**"], {})
    assert (paths.some(touched, Links()), paths.every(touched, Links())) == (some, every)


def test_an_unresolved_effect_is_never_certain() -> None:
    unsure = Effect("read", "operand", "/p/a", False, (0, 1))
    paths = PathSet(["/p/**"], {})
    assert (paths.some(unsure, Links()), paths.every(unsure, Links())) == (MAYBE, MAYBE)
    unread = Effect("execute", "script", "/p/a", False, (0, 1), unread=True)
    assert (paths.some(unread, Links()), paths.every(unread, Links())) == (YES, YES), (
        "what is not known of it is its text, not its place"
    )


def test_symbolic_links_count_where_they_lead(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "x").write_text("x")
    (project / "link").symlink_to(outside)
    (project / "plain").mkdir()
    paths = PathSet([f"{project}/**"], {})
    assert paths.every(effect(f"{project}/link/x"), Links()) == NO
    assert paths.every(effect(f"{project}/link"), Links()) == NO
    assert paths.every(effect(f"{project}/link/../x"), Links()) == NO
    assert paths.every(effect(f"{project}/plain/x"), Links()) == YES
    assert PathSet([f"{outside}/**"], {}).some(effect(f"{project}/link/x"), Links()) == YES


def test_a_project_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    paths = PathSet([f"{tmp_path}/alias/**"], {})
    assert paths.every(effect(f"{tmp_path}/alias/x"), Links()) == YES
    assert paths.every(effect(f"{tmp_path}/real/x"), Links()) == YES


@pytest.mark.parametrize(
    ("wild", "pattern", "recursive", "expected"),
    [
        ("/p/*", "**/.env", False, False),  # a shell's * does not match a leading dot
        ("/p/.*", "**/.env", False, True),
        ("/p/.e*", "**/.env", False, True),
        ("/p/*.py", "**/*.pem", False, False),
        ("/p/*", "**/*.pem", False, True),
        ("/p/[a-z]*", "/p/abc", False, True),
        ("/p/?", "/p/ab", False, False),
        ("/p/*", "/p/a/b", False, False),
        ("/p/*", "/p/a/b", True, True),
        ("/*", "/etc/**", False, True),
        ("/p/**/***.env", "**/.env", False, True),  # find -name '*.env' does match .env
        ("/p/**/***.pyc", "**/.env", False, False),
        ("/p/\\*", "/p/a", False, False),
    ],
)
def test_overlap_of_patterns(wild: str, pattern: str, recursive: bool, expected: bool) -> None:
    assert overlap(wild, pattern, recursive) is expected


_NAMES = st.text(alphabet="ab.", min_size=1, max_size=3).filter(lambda n: n not in (".", ".."))
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda c: "/" + "/".join(c))
_PATTERNS = st.lists(st.one_of(_NAMES, st.sampled_from(["*", "**", "a*", "?b", ".*"])), min_size=1, max_size=4).map(
    lambda c: "/" + "/".join(c)
)


@given(_PATTERNS, _PATTERNS, _PATHS)
def test_overlap_never_misses_a_common_path(wild: str, pattern: str, path: str) -> None:
    """What both patterns match as policy patterns (where * takes any name) they overlap on, dots apart."""
    both = PathSet([wild], {}).has(path) and PathSet([pattern], {}).has(path)
    hidden = any(c.startswith(".") for c in path.split("/"))
    if both and not hidden:
        assert overlap(wild, pattern, False)


@given(_PATTERNS, _PATHS)
@example("/a//b*/c", "/a/bx/c")
@example("**/x/*/y/**", "/x/a/y")
@example("/a/**/b?", "/a/bc")
def test_every_way_of_asking_gives_what_the_components_say(pattern: str, path: str) -> None:
    parts = [[part for part in text.split("/") if part] for text in (pattern, path)]
    assert PathSet([pattern], {}).has(path) is components_match(*parts)


@given(_PATTERNS, _PATHS)
def test_some_and_every_agree_on_one_path(pattern: str, path: str) -> None:
    paths = PathSet([pattern], {})
    assert paths.some(effect(path), Links()) == paths.every(effect(path), Links()) == (YES if paths.has(path) else NO)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/.env", "/a/.ENV"),
        ("**/.git/**", "/a/.Git/hooks/x"),
        ("/Users/Ann/.ssh/**", "/users/ann/.SSH/id"),
        ("**/*.pem", "/a/B.PEM"),
        ("**/.ssh/**", "/a/.\u017fsh/id"),
        ("**/.git/**", "/a/.g\u200cit/config"),
        ("**/caf\u00e9", "/a/CAFE\u0301"),
    ],
)
def test_names_in_another_case(pattern: str, path: str) -> None:
    paths, folding = PathSet([pattern], {}), Links(folds=True)
    assert paths.some(effect(path), Links()) == NO
    assert paths.some(effect(path), folding) == MAYBE  # an allow or an exception needs more
    assert paths.every(effect(path), folding) == NO
    assert paths.some(effect(pattern.replace("**", "/x").replace("*", "y")), folding) != NO
    assert folded(folded(path)) == folded(path)


def test_patterns_in_another_case() -> None:
    wild = effect("/a", pattern="/a/.E*")
    paths = PathSet(["**/.env"], {})
    assert (paths.some(wild, Links()), paths.some(wild, Links(folds=True))) == (NO, MAYBE)
    below = PathSet(["/A/b/c"], {})
    assert (below.some(effect("/a", below=True), Links()), below.some(effect("/a", below=True), Links(folds=True))) == (
        NO,
        MAYBE,
    )


PARTS = st.lists(st.text("abx*?[].\\", max_size=3), min_size=1, max_size=4).map("/".join)


@given(
    st.lists(st.sampled_from(["/a/b/**", "**/.x/**", "/a/*/b", "**/x.*", "/a/b", "/a/b*/**", "/b/?/**"]), min_size=1),
    PARTS,
    st.booleans(),
)
@example(["**/.x/**"], "**", False)
@example(["/a/b"], "*/*/*", True)
def test_a_pattern_may_match_what_overlaps_one_of_the_set(patterns: list[str], parts: str, recursive: bool) -> None:
    wild = f"/{parts}"
    effect = Effect("delete", "operand", "/", True, (0, 1), recursive=recursive, pattern=wild)
    links = Links()
    links.patterns[wild, False] = ()  # whatever links this machine has at such places
    found = PathSet(patterns, {}).some(effect, links)
    any_depth = [pattern for pattern in patterns if pattern.startswith("**/")]
    # All below a name that may turn up anywhere is not reached by chance, at any depth: `rm -rf *` would be doubtful.
    counts = [p for p in patterns if not (p in any_depth and p.endswith("/**") and "**" in wild.split("/"))]
    expected = any(overlap(wild, pattern, recursive and pattern not in any_depth) for pattern in counts)
    assert (found != NO) == expected
