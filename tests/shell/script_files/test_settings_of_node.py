"""Settings of tools that node runs: what they do, and what they name, counts where an action writes them."""

import json

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.program import Program

HARM = "require('child_process').execSync('rm -rf /srv/x');\n"
MODULE = "import {rmSync} from 'node:fs';\nrmSync('/srv/x', {recursive: true});\n"


def written(name: str, text: str) -> str:
    return f"cat > {name} <<'END'\n{text}END"


def judge(command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = ()) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{k}" for k in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, closed=True, reader=reader)


def deletes(program: Program) -> bool:
    return any(e.kind == "delete" and e.operand == "/srv/x" for c in program.commands for e in c.effects)


def settled(program: Program) -> bool:
    return program.status == "ok" and all(
        c.resolved and not any(e.unread or not e.resolved for e in c.effects) for c in program.commands
    )


@pytest.mark.parametrize(
    "name",
    [
        "jest.config.js", "jest.config.cjs", "jest.config.ts", "packages/a/jest.config.js", "vitest.workspace.ts",
        ".mocharc.js", ".mocharc.cjs", "eslint.config.js", ".eslintrc.cjs", "prettier.config.js", ".prettierrc.cjs",
        "babel.config.js", ".babelrc.js", "webpack.config.js", "rollup.config.js", "next.config.js",
        "tailwind.config.js", "postcss.config.cjs", "cypress.config.js", "playwright.config.js",
    ],
)  # fmt: skip
def test_what_settings_do_that_are_code_is_seen(name: str) -> None:
    assert deletes(judge(written(name, f"{HARM}module.exports = {{}};\n")))
    assert settled(judge(written(name, "module.exports = {verbose: true};\n")))


@pytest.mark.parametrize("name", ["vite.config.ts", "vitest.config.mts", "playwright.config.ts", "next.config.mjs"])
def test_so_it_is_in_modules(name: str) -> None:
    assert deletes(judge(written(name, f"{MODULE}export default {{}};\n")))
    assert deletes(judge(written(name, f"export default () => {{ {HARM.strip()} return {{}} }};\n")))


NAMED = [
    ("jest.config.js", "module.exports = {globalSetup: './x.js'};\n"),
    ("jest.config.js", "const c = {};\nc['set' + 'upFiles'] = [require('path').join(__dirname, 'x.js')];\nmodule.exports = c;\n"),
    ("jest.config.js", "module.exports = async () => ({reporters: ['default', ['./x', {}]]});\n"),
    ("jest.config.js", "module.exports = {get globalTeardown() { return './x.js' }};\n"),
    ("vitest.config.ts", "import {defineConfig} from 'vitest/config';\nexport default defineConfig({test: {setupFiles: 'x.js'}});\n"),
    ("jest.config.json", json.dumps({"transform": {"a$": ["<rootDir>/x.js", {}]}}) + "\n"),
    ("jest.config.json", json.dumps({"haste": {"hasteImplModulePath": "./x"}}) + "\n"),
    ("package.json", json.dumps({"jest": {"setupFilesAfterEnv": ["<rootDir>/x.js"]}}) + "\n"),
    ("package.json", json.dumps({"mocha": {"file": "x"}}) + "\n"),
    ("package.json", json.dumps({"babel": {"plugins": [["./x.js", {}]]}}) + "\n"),
    (".mocharc.json", json.dumps({"require": "x"}) + "\n"),
    (".mocharc.jsonc", '{"require": "./x.js"} // ours\n'),
    (".mocharc.yml", "reporter: ./x.js\n"),
    (".eslintrc.json", json.dumps({"extends": "./x.js"}) + "\n"),
    (".postcssrc", json.dumps({"plugins": {"./x.js": {}}}) + "\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), NAMED)
def test_what_they_name_is_read_with_them(name: str, text: str) -> None:
    command = written(name, text)
    assert deletes(judge(command, {"x.js": HARM})) or not settled(judge(command, {"x.js": HARM}))
    assert deletes(judge(f"{written('x.js', HARM)}\n{command}")) or not settled(judge(command, {"x.js": HARM}))


@pytest.mark.parametrize(
    "text",
    [
        "module.exports = JSON.parse(process.argv[2]);\n",
        "module.exports = {globalSetup: Buffer.from('Li94').toString()};\n",
        "module.exports = {...require('./base')};\n",
        "module.exports = () => JSON.parse('{}');\n",
        "module.exports = {globalSetup: process.env.SETUP};\n",
        "const k = atob('eA=='); module.exports = {[k]: './x'};\n",
        "module.exports = {env: {NODE_OPTIONS: '--require ./x.txt'}};\n",
        "module.exports = {webServer: {command: 'rm -rf /srv/x'}};\n",
        "module.exports = require('execa');\n",
        "module.exports = {a: <b/>};\n",
    ],
)
def test_what_is_not_known_of_them_is_asked_about(text: str) -> None:
    program = judge(written("playwright.config.js", text), {"x": "f()", "x.txt": "f()"})
    steers = any(e.kind == "environment" for c in program.commands for e in c.effects)
    assert not settled(program) or deletes(program) or steers


def test_what_another_file_of_the_project_says_counts() -> None:
    command = written("jest.config.js", "module.exports = {...require('./base')};\n")
    base = "module.exports = {globalSetup: './x.js'};\n"
    assert deletes(judge(command, {"base.js": base, "x.js": HARM}))
    assert deletes(judge(command, {"base.js": HARM}))


HARMLESS = [
    (".mocharc.js", "module.exports = {spec: ['test/**/*.spec.js'], timeout: 5000};\n"),
    ("babel.config.js", "module.exports = {presets: [['@babel/preset-env', {targets: {node: 'current'}}]]};\n"),
    ("rollup.config.mjs", "import resolve from '@rollup/plugin-node-resolve';\nexport default {input: 'src/a.js', plugins: [resolve()]};\n"),
    ("vite.config.ts", "import {defineConfig} from 'vite';\nimport react from '@vitejs/plugin-react';\nexport default defineConfig({plugins: [react()], server: {port: 3000}});\n"),
    ("package.json", json.dumps({"jest": {"testEnvironment": "node", "preset": "ts-jest"}}) + "\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), HARMLESS)
def test_settings_of_which_all_is_known_are_harmless(name: str, text: str) -> None:
    program = judge(written(name, text))
    assert settled(program), [c.unresolved for c in program.commands]
