"""Settings of tools that node runs: what they do, and what they name, counts where an action writes them."""

import json

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.program import Program

HARM = "require('child_process').execSync('rm -rf /srv/x');\n"


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


NAMED = [
    ("jest.config.json", json.dumps({"transform": {"a$": ["<rootDir>/x.js", {}]}}) + "\n"),
    ("jest.config.json", json.dumps({"haste": {"hasteImplModulePath": "./x"}}) + "\n"),
    ("package.json", json.dumps({"jest": {"setupFilesAfterEnv": ["<rootDir>/x.js"]}}) + "\n"),
    ("package.json", json.dumps({"mocha": {"file": "x"}}) + "\n"),
    ("package.json", json.dumps({"main": "x.txt"}) + "\n"),
    ("package.json", json.dumps({"imports": {"#a": {"node": "./x.txt"}}}) + "\n"),
    ("package.json", json.dumps({"exports": [{"require": "./x.txt"}]}) + "\n"),
    ("package.json", json.dumps({"exports": {"./*": "./*.txt"}}) + "\n"),
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
    module = "x.txt" if ".txt" in text else "x.js"
    for program in (judge(command, {module: HARM}), judge(f"{written(module, HARM)}\n{command}")):
        assert deletes(program) or not settled(program)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("webpack.config.js", "module.exports = {mode: 'production'};\n"),
        ("webpack.config.js", "module.exports = {output: {path: require('path').resolve(__dirname, '..'), clean: true}};\n"),
        ("vitest.workspace.ts", "export default ['packages/*'];\n"),
        ("packages/a/jest.config.cjs", "module.exports = {coverageDirectory: '..'};\n"),
    ],
)  # fmt: skip
def test_those_in_javascript_are_asked_about(name: str, text: str) -> None:
    """Its plug-ins delete, copy and run what they are given, which nobody here follows."""
    assert not settled(judge(written(name, text)))


def test_settings_of_which_all_is_known_are_harmless() -> None:
    text = json.dumps({"jest": {"testEnvironment": "node", "preset": "ts-jest"}})
    program = judge(written("package.json", f"{text}\n"))
    assert settled(program), [c.unresolved for c in program.commands]
