"""The catalog's files are scanned until a program is found, and where it stands is what YAML says."""

import threading
from pathlib import Path

import pytest

from humanlayer_agent.shell.programs import catalog
from tests.support.tables import table

FOLDER = Path(catalog.SHIPPED.folder)


def new() -> catalog.Catalog:
    return catalog.Catalog(str(FOLDER))


def test_every_program_is_found_at_its_own_text() -> None:
    whole = new()
    whole.scan()
    described: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        content = table(path)
        for key in content["programs"]:
            described |= dict.fromkeys(catalog.split_names(key), path.name)
    assert {name: place.file for name, place in whole.places.items()} == described
    for place in list(whole.places.values())[::50]:
        text = (FOLDER / place.file).read_text(encoding="utf-8")
        assert place.body in text + "\n"
        assert text.startswith(place.head + "\nprograms:")


def test_no_more_files_are_read_than_are_needed() -> None:
    some = new()
    assert some.lookup("ls") is not None
    assert {place.file for place in some.places.values()} == {"list.yaml"}
    assert some.lookup("no-such-program") is None
    assert {place.file for place in some.places.values()} == {path.name for path in FOLDER.glob("*.yaml")}


def test_the_files_that_are_read_first_are_there() -> None:
    assert [name.removesuffix(".yaml") for name in new().files()[: len(catalog._FIRST)]] == list(catalog._FIRST)
    assert sorted(new().files()) == sorted(path.name for path in FOLDER.glob("*.yaml"))


def test_threads_find_what_each_asks_for() -> None:
    names = ["ls", "git", "zip", "systemctl", "psql", "grep", "docker", "no-such-program"]
    expected = {name: catalog.SHIPPED.lookup(name) is not None for name in names}
    for _ in range(5):
        some, found, start = new(), {}, threading.Barrier(len(names))

        def ask(name: str, some: catalog.Catalog, found: dict[str, bool], start: threading.Barrier) -> None:
            start.wait()
            found[name] = some.lookup(name) is not None

        threads = [threading.Thread(target=ask, args=(name, some, found, start)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == expected


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("# b\nprograms:\n  one:\n    about: x\n", "one is already described in a.yaml"),
        ("# b\nprograms:\n  two, two:\n    about: x\n", "two is already described in b.yaml"),
        ("nothing\n", "no line `programs:`"),
    ],
)
def test_mistakes_in_files_are_told(second: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# a\nprograms:\n  one:\n    about: x\n")
    (tmp_path / "b.yaml").write_text(second)
    some = catalog.Catalog(str(tmp_path))
    for _ in range(2):  # a file with a mistake is not taken for one that was read
        with pytest.raises(catalog.CatalogError, match=said):
            some.scan()


def test_keys_with_colons_and_comments_in_between() -> None:
    body = '\n  # a comment: x\n  a: {about: x}\n  "b:c":\n    about: y\n\n  d:\n  e: 1\n'
    assert catalog._programs(body) == [
        ("a", "\n  a: {about: x}"),
        ('"b:c"', '\n  "b:c":\n    about: y\n'),
        ("d", "\n  d:"),
        ("e", "\n  e: 1\n"),
    ]
