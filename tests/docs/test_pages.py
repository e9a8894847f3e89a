"""Every block of code in our pages does what stands there, and every call of `hla` in them exists.

`HLA_PAGES=write` writes what commands print today below them: read the difference before you keep it.
"""

import itertools
import json
import os
import pwd
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.agents.supervision import supervision_settings
from humanlayer_agent.channels import settings
from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.cli.init import signer_list
from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.layers import machine_bundle
from humanlayer_agent.policy.plan import read_plan
from humanlayer_agent.policy_tools.lint import lint_file
from humanlayer_agent.processes import identity
from humanlayer_agent.shell.programs import spec as specs
from tests.support import extent
from tests.support.pages import LANGUAGES, PAGES, ROOT, Block, Scene, blocks, calls, run_python, same, steps

NOT_RUN = Path(__file__).with_name("not_run.txt")
WRITE = os.environ.get("HLA_PAGES") == "write"
DEAR = {"cookbook", "policies", "tutorial"}
"""What they show takes longer than that of all other pages."""
BY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
RUN_BY_PAGE = pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=pytest.mark.long if page.stem in DEAR else ())
        for page in PAGES
        if any(not each.not_run for each in blocks(page))
    ],
)
IN_A_RULE = "- id: it\n  decision: ask\n  suggestion: Leave it.\n"


@pytest.fixture
def scene(own_user: Path, compiled: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A home and a project that are not below a folder for temporary files: there the policy would allow too much."""
    with tempfile.TemporaryDirectory(prefix="hla-page-", dir=pwd.getpwuid(os.getuid()).pw_dir) as folder:
        home = Path(folder) / "home"
        shutil.copytree(own_user, home)
        home.chmod(0o700)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("HUMANLAYER_STORE")
        identity.machine.cache_clear()
        made = Scene(Path(folder), home)
        monkeypatch.chdir(made.project)
        yield made
        identity.machine.cache_clear()


@pytest.mark.sample(1)
@RUN_BY_PAGE
def test_what_a_page_shows(page: Path, scene: Scene) -> None:
    wrong = []
    for block in blocks(page):
        if block.title:
            scene.put(block.title, block.text)
        if not block.not_run:
            wrong += [f"{block.page}:{block.line}: {each}" for each in CHECKS[block.language](block, scene)]
    assert not wrong, "\n\n".join(wrong)


def consoles(block: Block, scene: Scene) -> Iterator[str]:
    text = block.text
    for step in steps(block.text):
        printed = scene.run(step.command)
        if not same(printed, step.printed):
            yield f"$ {step.command}\nprints\n{printed}\n(exit code {scene.code}); the page says\n{step.printed}"
            begin = "$ " + step.command.replace("\n", "\n> ")
            old, new = (f"{begin}\n{each}\n" if each else f"{begin}\n" for each in (step.printed, printed))
            text = text.replace(old, new)
    if WRITE and text != block.text:
        page = ROOT / block.page
        page.write_text(page.read_text().replace(block.text, text), encoding="utf-8")


def pythons(block: Block, scene: Scene) -> Iterator[str]:
    if block.title:
        return  # a console runs it
    os.chdir(scene.where)
    if wrong := run_python(block, scene.names):
        yield wrong


def yamls(block: Block, scene: Scene) -> Iterator[str]:
    content = yaml.safe_load(block.text)
    try:
        yield from next(check for keys, check in FORMS if keys(content))(block.text, content, scene)
    except HumanlayerError as error:
        yield str(error)


_numbers = itertools.count()


def policies(text: str, content: Any, scene: Scene) -> Iterator[str]:
    """It loads, and the lint, which also runs the examples in it, finds nothing. `make test` lints one in twelve."""
    number = next(_numbers)
    path = scene.folder / f"policy-{number}.yaml"
    path.write_text(scene.true(text))
    if extent.ALL or number % 12 == 0:
        yield from map(str, lint_file(path, routes={"default", "careful"}))
    else:
        load(path)


def whole(text: str, content: Any, scene: Scene) -> Iterator[str]:
    return policies(text, content, scene)


def parts_of_policies(text: str, content: Any, scene: Scene) -> Iterator[str]:
    base = "" if "extends" in content else "extends: [builtin:default]\n"
    return policies(f"version: 1\npolicy: team\n{base}{text}", content, scene)


def rules(text: str, content: Any, scene: Scene) -> Iterator[str]:
    return parts_of_policies("rules:\n" + _indented(text), {}, scene)


def conditions(text: str, content: Any, scene: Scene) -> Iterator[str]:
    """A part of a rule, or lists: it loads. What it does is shown elsewhere."""
    rest = f"rules:\n{_indented(IN_A_RULE + _indented(text))}" if "when" in content else text
    path = scene.folder / f"policy-{next(_numbers)}.yaml"
    path.write_text(f"version: 1\npolicy: team\nextends: [builtin:default]\n{rest}")
    load(path)
    return iter(())


def channels(text: str, content: Any, scene: Scene) -> Iterator[str]:
    path = scene.folder / "channels.yaml"
    path.write_text(text if "version" in content else f"version: 1\n{text}")
    if isinstance(content.get("signers"), dict):  # a list that lies nowhere here
        assert settings.signer_list(path) is not None
    else:
        settings.load(file=path)
    return iter(())


def signer_lists(text: str, content: Any, scene: Scene) -> Iterator[str]:
    """What a list of signers is made of."""
    path = scene.folder / "signers.yaml"
    path.write_text(text)
    assert signer_list.draft(path, 1, "2999-12-31", "").names
    return iter(())


def bundles(text: str, content: Any, scene: Scene) -> Iterator[str]:
    """A machine's settings: they say whose bundles it takes."""
    folder = scene.folder / "etc"
    folder.mkdir(mode=0o755, exist_ok=True)
    (folder / machine_bundle.SETTINGS).write_text(text)
    if os.geteuid() == 0:  # they are root's
        assert machine_bundle.settings(folder) is not None
    yield from ()


def programs(text: str, content: Any, scene: Scene) -> Iterator[str]:
    specs.read_programs(content, "page.yaml")
    return iter(())


def catalog_examples(text: str, content: Any, scene: Scene) -> Iterator[str]:
    list(specs.read_examples({"examples": content}, "page.yaml"))
    return iter(())


def supervisions(text: str, content: Any, scene: Scene) -> Iterator[str]:
    for section in content.values():
        supervision_settings(section["supervision"])
    return iter(())


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda content: isinstance(content, dict) and any(name in content for name in names)


def plans(text: str, content: Any, scene: Scene) -> Iterator[str]:
    """It is one."""
    read_plan(text, "/srv/app")
    yield from ()


FORMS: list[tuple[Callable[[Any], bool], Callable[[str, Any, Scene], Iterator[str]]]] = [
    (_has("policy"), whole),
    (_has("bundle"), bundles),
    (_has("programs"), programs),
    (_has("fleet"), signer_lists),
    (_has("people", "routes", "channels", "signers"), channels),
    (_has("rules", "exceptions"), parts_of_policies),
    (_has("when", "lists", "defaults", "confinements"), conditions),
    (_has("agent", "environment"), supervisions),
    (_has("needs"), plans),
    (lambda content: isinstance(content, list) and "command" in content[0], catalog_examples),
    (lambda content: isinstance(content, list), rules),
]
"""What a block of YAML is, by its keys."""


def nothing(block: Block, scene: Scene) -> Iterator[str]:
    return iter(())


def json_files(block: Block, scene: Scene) -> Iterator[str]:
    for text in [block.text] if block.text.startswith("{\n") else block.text.splitlines():
        json.loads(text)
    return iter(())


CHECKS = {
    "console": consoles, "python": pythons, "yaml": yamls, "json": json_files, "text": nothing, "ini": nothing,
}  # fmt: skip


@BY_PAGE
def test_each_block_has_a_language(page: Path) -> None:
    assert [(each.line, each.language) for each in blocks(page) if each.language not in LANGUAGES] == []


def test_what_is_not_run_is_listed() -> None:
    """In not_run.txt, and nowhere more than is there."""
    found = [f"{each.page}: {each.not_run}" for page in PAGES for each in blocks(page) if each.not_run]
    assert sorted(found) == NOT_RUN.read_text().splitlines()


@BY_PAGE
def test_each_call_of_hla_exists(page: Path) -> None:
    wrong = [each for each in calls(page) if not exists(each)]
    assert wrong == []


def exists(call: str) -> bool:
    """Tell whether there is such a command, with these options."""
    words = list(
        itertools.takewhile(lambda word: word not in ("|", "&&", ";", "<", ">"), shlex.split(call, comments=True))
    )[1:]
    command = command_tree()
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return False
        command = command.commands[words.pop(0)]
    given = words[: words.index("--")] if "--" in words else words
    known = {option for each in command.params for option in each.opts + each.secondary_opts} | {"--help", "-h"}
    return all(each.partition("=")[0] in known for each in given if each.startswith("-") and each != "-")


def test_nothing_is_installed_as_if_it_were_published() -> None:
    """Until it is, what installs it names a clone or a wheel."""
    published = re.compile(r"(pip|pipx|uv tool|uv pip) install [^\n`]*(?<![/\w])humanlayer-agent(?![/\w-])")
    places = [
        *PAGES,
        *(ROOT / "examples").rglob("*"),
        *(ROOT / "docs").rglob("*.py"),
        *(ROOT / "humanlayer_agent").rglob("*.py"),
    ]
    assert [str(each) for each in places if each.is_file() and published.search(each.read_text(errors="replace"))] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900
