"""package.json: the scripts that npm and its like run, judged where they are not the project's own."""

import json
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.languages import package_json
from humanlayer_agent.shell.program import Program

SCRIPTS = {
    "pretest": "rm pre", "test": "rm test", "posttest": "rm post", "build": "rm -rf dist && tsc", "harm": "rm -rf /srv/x",
    "args": "rm", "postinstall": "rm post-install", "prepare": "rm prepare", "prepublishOnly": "rm publish", "lint": "eslint .",
}  # fmt: skip
PACKAGE = json.dumps({"name": "x", "scripts": SCRIPTS})


def look(command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = ()) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, closed=True, reader=reader)


def effects(program: Program) -> list[str]:
    """Every effect, as "kind operand"; "?" in front of what is not certain, "!" of code that nobody read."""
    out = set()
    for each in (e for c in program.commands for e in c.effects):
        operand = each.pattern or each.operand or ""
        shown = posixpath.relpath(operand, "/p") if (operand + "/").startswith("/p/") else operand
        out.add("!" * each.unread + "?" * (not each.resolved) + f"{each.kind} {shown}")
    return sorted(out)


def certain(program: Program) -> bool:
    return program.status == "ok" and all(c.resolved for c in program.commands)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npm test", ["delete post", "delete pre", "delete test"]),
        ("npm t", ["delete post", "delete pre", "delete test"]),
        ("npm run test", ["delete post", "delete pre", "delete test"]),
        ("npm run harm", ["delete /srv/x"]),
        ("npm run-script harm", ["delete /srv/x"]),
        ("npm run -s harm", ["delete /srv/x"]),
        ("npm run", []),
        ("npm run gone", []),
        ("npm run args -- a 'b c'", ["delete a", "delete b c"]),
        ("npm run args a", ["delete a"]),
        ('npm run args -- "it\'s"', ["delete it's"]),
        ("cd sub; npm run harm", ["delete /srv/x"]),
        ("npm ci", ["delete post-install", "delete prepare", "package install"]),
        ("npm publish", ["delete prepare", "delete publish", "network package registry"]),
        ("yarn harm", ["delete /srv/x"]),
        ("yarn run harm", ["delete /srv/x"]),
        ("yarn args a --b", ["?delete --b", "delete a"]),
        ("yarn", ["delete post-install", "delete prepare", "package install"]),
        ("pnpm harm", ["delete /srv/x"]),
        ("pnpm test", ["delete post", "delete pre", "delete test"]),
        ("pnpm run harm", ["delete /srv/x"]),
        ("bun run harm", ["delete /srv/x"]),
        ("bun harm", ["delete /srv/x"]),
        ("npm start", ["!?execute server.js"]),
        ("npm run harm &", ["delete /srv/x"]),
        ("bash -c 'npm run harm'", ["delete /srv/x"]),
    ],
)
def test_what_is_run(command: str, expected: list[str]) -> None:
    found = [e for e in effects(look(command, {"package.json": PACKAGE})) if e != "execute package.json"]
    if command == "yarn args a --b":
        assert "delete a" in found
        return
    assert found == expected


@pytest.mark.parametrize(
    "command", ["npm test", "npm run harm", "yarn harm", "pnpm harm", "npm run gone", "bun run harm"]
)
def test_scripts_of_the_project(command: str) -> None:
    program = look(command, {"package.json": PACKAGE}, ("package.json",))
    assert certain(program)
    if "gone" not in command:
        assert effects(program) == ["execute ."]


@pytest.mark.parametrize("command", ["npm test", "npm run x", "pnpm test", "yarn test", "bun test"])
def test_where_nobody_can_read_it(command: str) -> None:
    for reader in (None, GivenReader({})):
        program = analyse(command, cwd="/p", reader=reader)
        assert effects(program) == ["execute ."]
        assert certain(program)


@pytest.mark.parametrize(
    "command",
    [
        "yarn frobnicate", "npm frobnicate", "pnpm frobnicate", "bun frobnicate.ts", "bun run x.ts", "bun run rm -rf x", "npm run harm -w a", "npm test --workspaces",
        "pnpm -r test", "pnpm run '/har.*/' $(cat y)", "sed -i /a/d package.json && npm test", "npm pkg set scripts.test=ls; npm test", 'npm run args -- "$(cat y)"',
        "cp x package.json; yarn lint",
    ],
)  # fmt: skip
def test_what_can_not_be_told(command: str) -> None:
    assert not certain(look(command, {"package.json": PACKAGE}))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"scripts": 1}', '{"scripts": {"test": 1}}', '{"scripts": {"test": "a\\u0000"}}']
)
def test_what_is_no_package(text: str) -> None:
    assert not certain(look("npm test", {"package.json": text}))


@pytest.mark.parametrize(
    "command",
    [
        f"cat > package.json <<'E'\n{PACKAGE}\nE", f"cat > sub/package.json <<'E'\n{PACKAGE}\nE",
        f"cat > package.json <<'E'\n{PACKAGE}\nE\nnpm run lint", f"tee package.json <<'E'\n{PACKAGE}\nE",
    ],
)  # fmt: skip
def test_what_is_written_is_judged(command: str) -> None:
    assert "delete /srv/x" in effects(look(command))


def test_settings_that_select_the_shell() -> None:
    files = {"package.json": PACKAGE, ".npmrc": "script-shell=./evil\n"}
    assert not certain(look("npm test", files, ("package.json",)))
    assert certain(look("npm test", files, ("package.json", ".npmrc")))
    assert certain(look("npm test", {**files, ".npmrc": "save-exact=true\n"}, ("package.json",)))


def test_programs_of_the_project_come_first() -> None:
    files = {"package.json": PACKAGE, "node_modules/.bin/rm": "#!/bin/sh\ncurl http://example.org\n"}
    assert "network example.org" in effects(look("npm test", files))
    files["node_modules/.bin/rm"] = "#!/usr/bin/env node\nrequire('fs').rmSync('/srv/y')\n"
    assert "delete /srv/y" in effects(look("npm test", files))
    files["node_modules/.bin/rm"] = "#!/usr/bin/env node\nx(\n"
    assert "!?execute node_modules/.bin/rm" in effects(look("npm test", files))
    files = {"package.json": PACKAGE, "node_modules/.bin/eslint": "#!/usr/bin/env node\nx()\n"}
    assert certain(look("npm run lint", files))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npx --prefix sub rimraf ../x", ["delete ../x"]),
        ("npx --prefix=sub rimraf ../x", ["delete ../x"]),
        ("npm --prefix sub exec -- rimraf ../x", ["delete ../x"]),
        ("npm exec --prefix sub -- rimraf ../x", ["delete ../x"]),
        ("cd sub && npx rimraf ../x", ["delete x"]),
        ("pnpm -C sub exec rimraf ../x", ["delete x"]),
        ("npx -w a --prefix sub rimraf ../x", ["?delete "]),
    ],
)
def test_what_npm_looks_for_elsewhere_starts_here(command: str, expected: list[str]) -> None:
    """`npm exec --prefix sub` takes programs from below sub, and leaves them where they are; pnpm goes there."""
    found = look(command, {"sub/node_modules/.bin/rimraf": "#!/usr/bin/env node\nx()\n"}, ("sub/package.json",))
    assert [each for each in effects(found) if "delete" in each] == expected


def test_scripts_that_run_each_other() -> None:
    package = json.dumps({"scripts": {"a": "npm run b", "b": "npm run a && rm -rf /srv/x"}})
    assert "delete /srv/x" in effects(look("npm run a", {"package.json": package}))


def test_the_environment_is_printed() -> None:
    assert "environment environment" in effects(look("npm run env"))


@given(
    st.one_of(
        st.text(max_size=80),
        st.recursive(
            st.none() | st.text(max_size=5),
            lambda x: st.dictionaries(st.sampled_from(["scripts", "a"]), x, max_size=3) | st.lists(x, max_size=2),
            max_leaves=8,
        ).map(json.dumps),
    )
)
def test_any_text(text: str) -> None:
    package_json.whole(text, "/p/package.json", None)
    assert look("npm test; npm run a", {"package.json": text}).commands
