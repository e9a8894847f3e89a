"""Lists of other tools: 100 commands and calls each, judged as the tool's documentation says and by what we made of it.

The models below are of the documented matching alone. Where the two differ we are the stricter one, and a note says so.
"""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.cli.policy.list_import import READERS, Tool, tried
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.yaml_positions import parse
from humanlayer_agent.policy_tools.rule_import import Imported, imported
from humanlayer_agent.tools.calls import written
from tests.support.extent import examples

ORDER = {"allow": 0, "ask": 1, "deny": 2}
OPERATORS = {"&&", "||", ";", "|", "&"}
WRAPPERS = {"timeout": 2, "nice": 1, "nohup": 1, "time": 1}
READ_ONLY = {"ls", "cat", "head", "tail", "wc", "grep", "echo", "pwd"}
"""What Claude Code and Dippy allow without a rule, as far as it is used here."""


def parts(command: str) -> list[tuple[list[str], bool]]:
    """The plain commands of a line, and whether each is redirected."""
    found: list[tuple[list[str], bool]] = [([], False)]
    for token in shlex.shlex(command, posix=True, punctuation_chars=True):
        if token in OPERATORS:
            found.append(([], False))
        elif token in (">", ">>", "<") or found[-1][1]:
            found[-1] = (found[-1][0], True)
        else:
            found[-1][0].append(token)
    return found


def unwrapped(words: list[str]) -> list[str]:
    while words and words[0] in WRAPPERS:
        words = words[WRAPPERS[words[0]] :]
    return words


def strictest(verdicts: list[str]) -> str:
    return max(verdicts, key=lambda verdict: ORDER[verdict])


CLAUDE = {
    "allow": ["npm run test:*", "npm run build", "git status", "git log *", "git commit:*", "git push:*", "git:*", "make lint:*", "gh pr view *", "rm *.log", "frob *", "git * main", "python:*", "cargo test*"],
    "ask": ["git push * main", "gh pr merge:*"],
    "deny": ["curl:*", "rm -rf:*", "*--unsafe", "npm publish"],
}  # fmt: skip


def claude(command: str) -> str:
    def matches(pattern: str, text: str) -> bool:
        pattern = pattern[:-2] + " *" if pattern.endswith(":*") else pattern
        head = pattern[:-2] if pattern.endswith(" *") and pattern.count("*") == 1 else None
        regex = ".*".join(map(re.escape, pattern.split("*")))
        return text == head or re.fullmatch(regex, text, re.DOTALL) is not None

    verdicts = []
    for words, redirected in parts(command):
        text = shlex.join(unwrapped(words))
        found = next((d for d in ("deny", "ask", "allow") if any(matches(each, text) for each in CLAUDE[d])), None)
        if found is None:
            found = "allow" if words and words[0] in READ_ONLY else "ask"
        verdicts.append("ask" if redirected and found == "allow" else found)
    return strictest(verdicts)


CODEX = """
prefix_rule(pattern = ["npm", "run", ["test", "build"]], match = ["npm run test -- -x"], not_match = ["npm run dev"])
prefix_rule(pattern = ["git", "status"], decision = "allow")
prefix_rule(pattern = ["git", ["log", "commit"]], decision = "allow")
prefix_rule(pattern = ["git", "push"], decision = "prompt", justification = "Ask before you push.")
prefix_rule(pattern = ["git", "push", "--force"], decision = "forbidden")
prefix_rule(pattern = ["make", "lint"])
prefix_rule(pattern = ["gh", "pr", "view"])
prefix_rule(pattern = ["frob"])
prefix_rule(pattern = ["python"])
prefix_rule(pattern = ["cargo", "test"])
prefix_rule(pattern = ["curl"], decision = "forbidden")
prefix_rule(pattern = ["rm", "-rf"], decision = "forbidden")
prefix_rule(pattern = ["npm", "publish"], decision = "forbidden")
"""
CODEX_RULES: list[tuple[list[str | list[str]], str]] = [
    (["npm", "run", ["test", "build"]], "allow"), (["git", "status"], "allow"), (["git", ["log", "commit"]], "allow"),
    (["git", "push"], "ask"), (["git", "push", "--force"], "deny"), (["make", "lint"], "allow"), (["gh", "pr", "view"], "allow"),
    (["frob"], "allow"), (["python"], "allow"), (["cargo", "test"], "allow"), (["curl"], "deny"), (["rm", "-rf"], "deny"), (["npm", "publish"], "deny"),
]  # fmt: skip


def codex(command: str) -> str:
    if any(redirected for _, redirected in parts(command)) or "$" in command:
        return "ask"  # it is judged as a whole, as words of bash
    verdicts = []
    for words, _ in parts(command):
        found = [
            decision
            for pattern, decision in CODEX_RULES
            if len(words) >= len(pattern)
            and all(w in (p if isinstance(p, list) else [p]) for w, p in zip(words, pattern, strict=False))
        ]
        verdicts.append(strictest(found) if found else "ask")
    return strictest(verdicts)


GEMINI = """
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["npm run test", "npm run build", "git log", "git commit", "gh pr view", "frob", "python", "cargo test"]
decision = "allow"
priority = 100
[[rule]]
commandPrefix = "git status"
decision = "allow"
priority = 300
[[rule]]
commandPrefix = "git"
decision = "ask_user"
priority = 200
[[rule]]
commandRegex = "make (lint|format)"
decision = "allow"
priority = 100
[[rule]]
commandPrefix = ["curl", "rm -rf", "npm publish"]
decision = "deny"
priority = 900
denyMessage = "Not here."
"""
GEMINI_RULES = [
    *((p, "allow", 100) for p in ("npm run test", "npm run build", "git log", "git commit", "gh pr view", "frob", "python", "cargo test")),
    ("git status", "allow", 300), ("git", "ask", 200), *((p, "deny", 900) for p in ("curl", "rm -rf", "npm publish")),
]  # fmt: skip


def gemini(command: str) -> str:
    verdicts = []
    for words, redirected in parts(command):
        text = shlex.join(words)
        found = [(priority, d) for p, d, priority in GEMINI_RULES if re.match(re.escape(p) + r"(\s|$)", text)]
        if re.match("make (lint|format)", text):
            found.append((100, "allow"))
        verdict = max(found)[1] if found else "ask"
        verdicts.append("ask" if redirected and verdict == "allow" else verdict)
    return strictest(verdicts)


DIPPY = """
# ours
allow npm run test
allow npm run build|
deny npm publish "Use the release job"
allow git
ask git push "Sure?"
allow git push --dry-run
deny git push --force
allow make lint
allow gh pr view
allow frob *
allow python
allow cargo test
deny curl "No network"
deny rm -rf
allow-redirect /srv/out/**
"""


def dippy(command: str) -> str:
    rules = [re.fullmatch(r'(\w+) (.*?)(?: "[^"]*")?', line) for line in DIPPY.splitlines()]
    verdicts = []
    for words, redirected in parts(command):
        text, verdict = shlex.join(unwrapped(words)), "allow" if words and words[0] in READ_ONLY else "ask"
        for rule in rules:
            if rule is None:
                continue
            pattern = rule[2].removesuffix("|").removesuffix(" *")
            if text == pattern or (text.startswith(pattern + " ") and not rule[2].endswith("|")):
                verdict = rule[1]
        verdicts.append("ask" if redirected and verdict == "allow" and "/srv/out/" not in command else verdict)
    return strictest(verdicts)


BASES = [
    "npm run test", "npm run test -- --watch", "npm run tests", "npm run build", "npm run build -- x", "npm publish", "npm install x",
    "git status", "git status -s", "git log -3", "git commit -m x", "git push", "git push origin main", "git push --force origin x",
    "git push --dry-run", "make lint", "make deploy", "gh pr view 12", "gh pr merge 12", "rm -rf build", "rm a.log", "frob x",
    "python x.py", "cargo test", "curl https://example.com",
]  # fmt: skip
FORMS = ["{}", "{} && rm -rf /", "timeout 5 {}", "{} > out.txt", "{} > /srv/out/x", "ls && {}", "sudo {}"]
ROWS = [form.format(base) for form in FORMS for base in BASES]
NAMED = {
    "each in a line by itself": r"^(timeout|nice)|>|&&|\|",
    "without asking: here that asks|without a rule|by itself|of its own": r"^(ls|cat)\b|&& ls",
    "can run any code": r"\b(git|python|make)\b",
    "what lasts or can't be undone": r"sudo|--force|-rf /",
    "holds behind `sudo`": r"sudo|timeout|>",
}
"""What a note says, and of which commands."""
LISTS: dict[Tool, tuple[str, Callable[[str], str]]] = {
    "claude-code": ("", claude), "codex": (CODEX, codex), "gemini-cli": (GEMINI, gemini), "dippy": (DIPPY, dippy),
}  # fmt: skip


def made(tool: Tool, text: str) -> Imported:
    return tried(READERS[tool](text, "list"), "imported")


def judge(policy: Imported, folder: Path) -> Callable[[str], str]:
    (folder / "p.yaml").write_text(policy.text)
    director = Director.load(str(folder / "p.yaml"), project=folder)
    return lambda command: str(director.evaluate(written(command, cwd=str(folder))).verdict)


@pytest.mark.parametrize("tool", LISTS)
def test_a_hundred_rows_agree_or_are_named(tool: Tool, tmp_path: Path, own_user: Path) -> None:
    text, theirs = LISTS[tool]
    if tool == "claude-code":
        text = json.dumps({"permissions": {key: [f"Bash({each})" for each in rules] for key, rules in CLAUDE.items()}})
    policy = made(tool, text)
    ours = judge(policy, tmp_path)
    notes = "\n".join([*policy.notes, *(note for each in policy.lines for note in each.line.notes)])
    assert len(ROWS) >= 100
    looser, unnamed, agreed = [], [], 0
    for command in ROWS:
        there, here = theirs(command), ours(command)
        if ORDER[here] < ORDER[there]:
            looser.append((command, there, here))
        elif here == there:
            agreed += 1
        elif not any(re.search(note, notes) and re.search(which, command) for note, which in NAMED.items()):
            unnamed.append((command, there, here))
    assert (looser, unnamed) == ([], [])
    assert agreed > len(ROWS) * 0.6, agreed


CALLS = {
    "allow": ["Read(src/**)", "Read(~/notes/*.txt)", "Edit(*.md)", "Edit(/docs/**)", "WebFetch(domain:example.com)", "WebFetch(domain:*.example.org)", "mcp__forge__get_*", "mcp__notes", "WebSearch"],
    "ask": ["mcp__forge__merge"],
    "deny": ["Read(./.env)", "Read(*.pem)", "Read(//etc/**)", "Edit(src/generated/**)", "mcp__shell"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("Read(src/a.py)", "allow"), ("Read(src/deep/a.py)", "allow"), ("Read(a.py)", "ask"), ("Read(src/../a.py)", "ask"),
        ("Read(../src/a.py)", "ask"), ("Read(.env)", "deny"), ("Read(src/.env)", "allow"), ("Read(src/x.pem)", "deny"),
        ("Read(/etc/hosts)", "deny"),
        ("Edit(a.md)", "allow"), ("Edit(deep/a.md)", "allow"), ("Edit(a.py)", "ask"), ("Edit(docs/x/y)", "allow"),
        ("Edit(/docs/x)", "ask"), ("Write(docs/a)", "allow"), ("Edit(src/generated/a.py)", "deny"), ("Write(src/generated/a)", "deny"),
        ("WebFetch(https://example.com/x)", "allow"), ("WebFetch(https://www.example.com/x)", "ask"), ("WebFetch(https://a.example.org)", "allow"),
        ("WebFetch(https://evil.com)", "ask"), ("WebFetch(https://example.com.evil.com)", "ask"),
        ("mcp__forge__get_repo", "allow"), ("mcp__forge__merge", "ask"), ("mcp__forge__delete", "ask"), ("mcp__notes__add", "allow"),
        ("mcp__shell__run", "deny"), ("mcp__notesx__add", "ask"), ("WebSearch", "allow"),
        ("cat .env", "deny"), ("cat src/a.py", "ask"), ("cat < .env", "deny"), ("cp /etc/hosts x", "deny"), ("echo > src/generated/x", "deny"),
    ],
)  # fmt: skip
def test_calls_of_tools(command: str, verdict: str, judged_calls: Callable[[str], str]) -> None:
    """What a tool of Claude Code is given; the last ones are stricter than there, and a note says so."""
    found = re.fullmatch(r"(Read|Edit|Write|WebFetch)\((.*)\)", command)
    if found is not None:
        more = {
            "Edit": ', "old_string": "a", "new_string": "b"',
            "Write": ', "content": "x"',
            "WebFetch": ', "prompt": "x"',
        }
        key = "url" if found[1] == "WebFetch" else "file_path"
        command = f'{found[1]}({{"{key}": "{found[2]}"{more.get(found[1], "")}}})'
    elif re.fullmatch(r"mcp__\w+|WebSearch", command):
        command = f'{command}({{"query": "x"}})'
    assert judged_calls(command) == verdict


@pytest.fixture(scope="module")
def judged_calls(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    text = json.dumps({"permissions": CALLS}, indent=1)
    policy = made("claude-code", text)
    assert "not only for the tools Read and Edit" in " ".join(policy.notes)
    lines = [each.line.number for each in policy.lines]
    assert lines == [n for n, line in enumerate(text.splitlines(), 1) if re.search(r"\(|mcp__|WebSearch", line)]
    return judge(policy, tmp_path_factory.mktemp("calls"))


def test_what_fetches_for_the_tool_is_not_the_command(tmp_path: Path, own_user: Path) -> None:
    """The usual advice: no curl, and the tool for a few hosts."""
    text = (
        '{"permissions": {"deny": ["Bash(curl:*)", "Bash(* --x)"], "allow": ["WebFetch(domain:a.org)", "mcp__f__*"]}}'
    )
    ours = judge(made("claude-code", text), tmp_path)
    assert ours('WebFetch({"url": "https://a.org/", "prompt": "x"})') == "allow"
    assert ours("mcp__f__get({})") == "allow"
    assert ours('Bash({"command": "curl https://a.org/"})') == "deny"
    assert ours("curl https://a.org/") == "deny"


NOT_CARRIED = {
    "claude-code": [
        ("Bash", "every command"), ("Bash(*)", "every command"), ("Bash()", "every command"), ("Bash(npm test && rm -rf x)", "plain command"),
        ("Bash(a | b)", "plain command"), ("Bash(a > b)", "plain command"), ("Bash(echo $HOME)", "plain command"), ("Bash(echo \"$HOME\")", "not known"),
        ("Bash(a `b`)", "plain command"), ("Bash(a\nrm -rf x)", "plain command"), ("Bash(a; b)", "plain command"), ("Bash(echo 'a)", "open"),
        ("Bash(echo a\\\\)", "open"), ("Bash(FOO=1 npm test)", "variables before"), ("Bash(ls*)", "does not name"), ("Bash(* --version)", "does not name"),
        ("Bash(:*)", "matches every command"), ("Write(src/**)", "never consults"), ("Read(src/[ab].py)", "patterns? has"), ("Read(!x)", "patterns? has"),
        ("Read(../x)", "leads above"), ("Read($HOME/x)", "patterns? has"), ("WebFetch(example.com)", "domain:NAME"), ("WebFetch(domain:a b)", "domain:NAME"),
        ("mcp__*", "names no server"), ("mcp__*__get", "names no server"), ("Task(x)", "in the brackets"), ("mcp__a__b(c:d)", "in the brackets"), ("not a rule!", "no rule"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "why"), NOT_CARRIED["claude-code"])
def test_what_is_not_carried_is_said(rule: str, why: str, own_user: Path) -> None:
    (line,) = made(
        "claude-code", json.dumps({"permissions": {"allow": [rule.encode().decode("unicode_escape")]}})
    ).lines
    assert line.rules == ()
    assert re.search(why, line.line.problem), line.line.problem


def test_a_deny_that_is_not_carried_is_called_looser(own_user: Path) -> None:
    policy = made("claude-code", '{"permissions": {"deny": ["Bash"], "allow": ["Bash(frob:*)"]}}')
    assert "#   line 1: Bash: not carried, which is looser here: it is about every command" in policy.text


@pytest.mark.parametrize(
    ("tool", "text", "says"),
    [
        ("claude-code", "{", "list:1: not JSON"), ("claude-code", "[]", "expected settings"), ("claude-code", "{}", "expected settings"),
        ("claude-code", '{"permissions": {"allow": "Bash"}}', "expected a list of rules"), ("claude-code", "[" * 100_000, "not JSON"),
        ("codex", "prefix_rule(", "list:1: not Starlark"), ("codex", "(" * 1000, "not Starlark"), ("codex", "\0", "not Starlark"),
        ("gemini-cli", "[[rule]", "not TOML"), ("gemini-cli", "a = 1", "with .*rule"), ("gemini-cli", "rule = 1", "with .*rule"),
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused(tool: Tool, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        READERS[tool](text, "list")


@pytest.mark.parametrize(
    ("tool", "text", "why"),
    [
        ("codex", "prefix_rule(pattern=[x])", "computed"), ("codex", "x = 1", "only calls"), ("codex", "load('a', 'b')", "not about the words"),
        ("codex", "prefix_rule(['ls'])", "without a name"), ("codex", "prefix_rule(pattern=['ls'], decision='maybe')", "none of"),
        ("codex", "prefix_rule(pattern=[])", "no list of words"), ("codex", "prefix_rule(pattern=['ls', 3])", "no list of words"),
        ("codex", "prefix_rule(pattern=['ls'], sandbox='x')", "not known here: sandbox"), ("codex", "prefix_rule(pattern=['a'] * 9)", "computed"),
        ("gemini-cli", "[[rule]]\ndecision = 'allow'\ntoolName = 'run_shell_command'", "every command"),
        ("gemini-cli", "[[rule]]\ndecision = 'allow'\nargsPattern = 'x'", "argsPattern"), ("gemini-cli", "[[rule]]\ndecision = 'no'", "none of"),
        ("gemini-cli", "[[rule]]\ndecision = 'allow'\ncommandPrefix = 'a'\nmodes = ['yolo']", "only for some modes"),
        ("gemini-cli", "[[rule]]\ndecision = 'deny'\ncommandRegex = 'rm .*-rf'", "over several words"),
        ("gemini-cli", "[[rule]]\ndecision = 'allow'\ncommandRegex = '^git'", "word by word"), ("gemini-cli", "[[rule]]\ndecision = 'allow'\ncommandRegex = 'git (a'", "word by word"),
        ("gemini-cli", "[[rule]]\ndecision = 'allow'\nfuture = 1", "not known here: future"),
        ("dippy", "allow", "names no command"), ("dippy", "allow a?b", "one character"), ("dippy", "set default allow", "whatever no line names"), ("dippy", "frob x", "no directive"),
        ("dippy", "allow a; b", "plain command"), ("dippy", "deny-redirect", "names no path"),
    ],
)  # fmt: skip
def test_what_others_say_and_we_can_not(tool: Tool, text: str, why: str, own_user: Path) -> None:
    (line,) = made(tool, text).lines
    assert line.rules == ()
    assert why in line.line.problem, line.line.problem


def test_what_goes_before_excuses(tmp_path: Path, own_user: Path) -> None:
    """Of two lines of Dippy the last counts, of two rules of Gemini CLI the one with the higher priority."""
    ours = judge(made("dippy", "deny git push\nallow git push --dry-run\n"), tmp_path)
    assert (ours("git push"), ours("git push --dry-run"), ours("git push --dry-run -f x")) == ("deny", "allow", "ask")
    ours = judge(made("dippy", "allow git push --dry-run\ndeny git push\n"), tmp_path)
    assert ours("git push --dry-run") == "deny"


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("deny *rm*", "frob a rm-b c", "deny"), ("deny *rm*", "rm", "deny"), ("deny *rm*", "frob a b", "ask"), ("deny a*b c", "a x b c", "deny"),
        ("deny a*b c", "axb c", "deny"), ("deny git push*", "git pushx y", "deny"), ("deny git push*", "/usr/bin/git push", "deny"),
        ("deny rm -rf /*", "rm -rf /srv/x", "deny"), ("deny frob 'a b'", "frob a\\ b", "deny"), ("deny frob x", "bash -c 'frob x'", "deny"),
        ("deny frob x", "frob $Y", "ask"), ("allow frob x *", "frob $Y", "ask"), ("allow frob x *", "frob x $Y", "allow"), ("allow frob x *", "frob xy", "ask"),
        ("allow frob x*", "frob xy z", "allow"), ("allow frob x *", "frob x `rm y`", "ask"), ("allow frob x *", "frob x\nrm y", "ask"), ("allow frob x *", "frob x | sh", "ask"),
        ("allow frob x *", "LD_PRELOAD=./y.so frob x", "ask"), ("allow frob x *", "./frob x", "ask"), ("allow frob x *", "frob() { rm y; }; frob x", "ask"),
        ("allow frob x*y", "frob x y", "ask"), ("allow python -c *", "python -c 'import os; os.remove(\"x\")'", "ask"), ("allow bash -c *", "bash -c 'rm x'", "ask"),
        ("allow git * main", "git -c core.pager='rm x' log main", "ask"), ("allow git * main", "git main", "ask"), ("allow xargs *", "xargs rm", "ask"), ("allow sudo frob *", "sudo frob x", "ask"),
    ],
)  # fmt: skip
def test_patterns_that_may_be_misread(rule: str, command: str, verdict: str, tmp_path: Path, own_user: Path) -> None:
    decision, _, pattern = rule.partition(" ")
    ours = judge(made("claude-code", json.dumps({"permissions": {decision: [f"Bash({pattern})"]}})), tmp_path)
    assert ours(command) == verdict


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("tool", "text", "command", "verdict"),
    [
        ("claude-code", '{"permissions": {"deny": ["Read(.env)"], "allow": ["Read(**)"]}}', 'Read({"file_path": "a/b/.env"})', "deny"),
        ("claude-code", '{"permissions": {"deny": ["Read(.env)"], "allow": ["Edit(**)"]}}', 'Write({"file_path": ".env", "content": "x"})', "deny"),
        ("claude-code", '{"permissions": {"ask": ["Read(.env)"], "allow": ["Edit(**)"]}}', 'Write({"file_path": ".env", "content": "x"})', "allow"),
        ("claude-code", '{"permissions": {"deny": ["Task"]}}', "Agent({})", "deny"),
        ("claude-code", '{"permissions": {"deny": ["Bash(frob ~/*)"]}}', "frob ~/x/y", "deny"),
        ("claude-code", '{"permissions": {"deny": ["Bash(frob ~)"]}}', "frob ~", "deny"),
        ("claude-code", '{"permissions": {"deny": ["Bash(frob ~)"]}}', "frob /srv", "ask"),
        ("codex", "prefix_rule(pattern=['frob', '~/x'], decision='forbidden')", "frob ~/x", "deny"),
        ("codex", "prefix_rule(pattern=['frob', ['~/x', 'y']], decision='forbidden')", "frob y", "deny"),
        ("dippy", "deny frob ~/x", "frob ~/x y", "deny"),
        ("dippy", "deny-redirect /srv/*\nallow echo", "echo a > /srv/b/c", "deny"),
        ("dippy", "deny-redirect *.key\nallow echo", "echo a > sub/x.key", "deny"),
        ("dippy", "deny-redirect *.key\nallow echo", "echo a > x.key", "deny"),
        ("dippy", "deny-redirect /srv/a*b\nallow echo", "echo a > /srv/ax/yb", "deny"),
        ("dippy", "deny\tfrob", "frob x", "deny"),
        ("dippy", "deny /opt/x/frob y\nask frob y", "/opt/x/frob y", "deny"),
        ("dippy", "deny /opt/x/frob y\nask frob y", "frob y", "ask"),
        ("dippy", "deny-redirect /srv/**\nask-redirect /tmp/**\nallow echo", "echo a > /tmp/x > /srv/y", "deny"),
        ("gemini-cli", "[[rule]]\ncommandPrefix = 'frob'\ndecision = 'deny'\n[[rule]]\ncommandPrefix = 'frob'\ndecision = 'ask_user'\npriority = 9\nmodes = ['plan']", "frob x", "deny"),
        ("gemini-cli", "[[rule]]\ntoolName = 'frob'\ndecision = 'deny'\n[[rule]]\ntoolName = 'frob'\ndecision = 'ask_user'\npriority = 9\nmodes = ['plan']", "frob({})", "deny"),
        ("gemini-cli", "[[rule]]\ntoolName = 'frob'\ndecision = 'deny'\n[[rule]]\ntoolName = 'frob'\ndecision = 'ask_user'\npriority = 9", "frob({})", "ask"),
        ("gemini-cli", "[[rule]]\ntoolName = 'search_file_content'\ndecision = 'deny'", 'grep_search({"pattern": "x"})', "deny"),
    ],
)  # fmt: skip
def test_what_is_denied_there_is_denied_here(
    tool: Tool, text: str, command: str, verdict: str, tmp_path: Path, own_user: Path
) -> None:
    assert judge(made(tool, text), tmp_path)(command) == verdict


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("claude-code", '{"permissions": {"allow": ["Bash(cat *)", "Bash(curl *)", "Bash(find *)"]}}'),
        ("codex", "prefix_rule(pattern=['cat'])\nprefix_rule(pattern=['curl'])\nprefix_rule(pattern=['find'])"),
        ("gemini-cli", "[[rule]]\ncommandPrefix = ['cat', 'curl', 'find']\ndecision = 'allow'"),
        ("dippy", "allow cat\nallow curl\nallow find"),
    ],
)
def test_an_allow_of_a_command_allows_no_tool(tool: Tool, text: str, tmp_path: Path, own_user: Path) -> None:
    """Tools are judged as commands (`cat` for what is read); their lists are others."""
    ours = judge(made(tool, text), tmp_path)
    assert ours("cat /etc/hosts") == ours('Bash({"command": "cat /etc/hosts"})') == "allow"
    assert ours('run_shell_command({"command": "cat /etc/hosts"})') == "allow"
    assert ours('Read({"file_path": "/etc/hosts"})') == ours('read_file({"file_path": "/etc/hosts"})') == "ask"
    assert ours('WebFetch({"url": "https://a.org/", "prompt": "x"})') == "ask"
    assert ours('Glob({"pattern": "*"})') == "ask"


@pytest.mark.parametrize(
    ("tool", "text", "says"),
    [
        ("claude-code", '{"permissions": {"deny": ["Bash(*frob -x*)"]}}', "words are compared, without redirections"),
        ("claude-code", '{"permissions": {"deny": ["Bash(cat *.env)"]}}', "words are compared, without redirections"),
        ("codex", "prefix_rule(pattern=['frob', '*.txt'], decision='forbidden')", "where a shell would put file names"),
        ("gemini-cli", "[[rule]]\ncommandPrefix = 'frob *'\ndecision = 'deny'", "where a shell would put file names"),
        ("codex", "prefix_rule(pattern=['frob', ['~/x', 'y']], decision='forbidden')", "where a shell puts a home"),
        ("gemini-cli", "[[rule]]\ncommandRegex = 'frob ~/x'\ndecision = 'deny'", "where a shell puts a home"),
        ("codex", "prefix_rule(pattern=['frob/'], decision='forbidden')", "`frob/` is judged ask"),
        ("dippy", "deny frob bin/x", "Dippy resolves"), ("dippy", "deny frob *x y", "words are compared"),
        ("gemini-cli", "[[rule]]\nmcpName = 'git'\ndecision = 'allow'", "of servers whose names begin with git_"),
    ],
)  # fmt: skip
def test_what_is_looser_is_said_at_its_line(tool: Tool, text: str, says: str, own_user: Path) -> None:
    policy = made(tool, text)
    (line,) = policy.lines
    assert line.rules
    assert line.line.is_looser
    assert f"  # looser here: {says}" in policy.text


@pytest.mark.parametrize("rule", ["Bash(frob x *)", "Bash(frob x*)", "Bash(frob:*)", "Bash(frob x)"])
def test_what_is_not_looser_is_not_called_so(rule: str, own_user: Path) -> None:
    (line,) = made("claude-code", json.dumps({"permissions": {"deny": [rule]}})).lines
    assert not line.line.is_looser


@pytest.mark.parametrize(
    ("tool", "text", "looser"),
    [
        ("claude-code", '{"permissions": {"defaultMode": "plan"}}', True), ("claude-code", '{"permissions": {"defaultMode": "dontAsk"}}', True),
        ("claude-code", '{"permissions": {"defaultMode": "bypassPermissions"}}', False), ("claude-code", '{"permissions": {"additionalDirectories": ["../x"]}}', False),
        ("claude-code", '{"permissions": {"denyInsteadOfPrompting": true}}', True), ("claude-code", '{"permissions": {}, "hooks": {"PreToolUse": []}}', True),
        ("claude-code", '{"permissions": {}, "sandbox": {"enabled": true}}', True), ("claude-code", '{"permissions": {"deny": ["Read(~)"]}}', True),
        ("codex", "network_rule(host='x', protocol='https', decision='deny')", True), ("codex", "network_rule(host='x', protocol='https', decision='allow')", False),
        ("codex", "prefix_rule(pattern=['a' * 3], decision='forbidden')", True), ("codex", "prefix_rule(pattern=['a' * 3], decision='allow')", False),
        ("codex", "[prefix_rule(pattern=[x], decision='prompt') for x in y]", True), ("codex", "prefix_rule(**{'pattern': ['a'], 'decision': 'forbidden'})", True),
        ("codex", "def f():\n    prefix_rule(pattern=['a'], decision='forbidden')", True), ("codex", "x = 1", False),
        ("claude-code", '{"permissions": {"deny": ["Bash(time *)"]}}', True), ("claude-code", '{"permissions": {"deny": ["Bash(if x)"]}}', True),
        ("dippy", "deny-mcp mcp__x__*", True), ("dippy", "allow-mcp mcp__x__*", False),
    ],
)  # fmt: skip
def test_what_may_refuse_and_is_not_read_is_called_looser(tool: Tool, text: str, looser: bool, own_user: Path) -> None:
    policy = made(tool, text)
    (line,) = policy.lines
    assert line.rules == ()
    assert ("not carried, which is looser here: " in policy.text) == looser


HOSTILE = [
    "{{ command }}",
    "a\u202eb",
    "x" * 5000,
    "*/*",
    "a'b",
    'a"b',
    "#",
    "- x",
    "!!python/name:os.system",
    "é",
    "...",
    "\x1b[31m",
    "&a",
    "a: b",
    "?",
]


@pytest.mark.sample(5)
@pytest.mark.parametrize("word", HOSTILE)
def test_a_hostile_word_stays_one(word: str, tmp_path: Path, own_user: Path) -> None:
    rules = {"allow": [f"Bash(frob {shlex.quote(word)})"], "deny": [f"Bash(frob {shlex.quote(word)} x)"]}
    policy = made("claude-code", json.dumps({"permissions": rules}))
    ours = judge(policy, tmp_path)
    if all(each.rules for each in policy.lines):
        assert ours(f"frob {shlex.quote(word)} x") == "deny"
        assert ours(f"frob {shlex.quote(word)}") == ("ask" if "\x1b" in word else "allow")  # no human could read it
    assert ours("frob other") == ours("rm -rf /srv/x; frob a") == "ask"


@given(text=st.text(min_size=1, max_size=30), decision=st.sampled_from(["allow", "deny"]))
@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_is_read_or_refused(text: str, decision: str) -> None:
    found = READERS["claude-code"](
        json.dumps({"permissions": {decision: [f"Bash({text})", text, f"Read({text})"]}}), "x"
    )
    parse(imported(found, "p").text, "p")
    for line in READERS["dippy"](f"{decision} {text}", "x").lines:
        assert line.problem or line.when


def test_a_very_long_list(own_user: Path) -> None:
    rules = [f"Bash(frob{n} x:*)" for n in range(100)]
    policy = made("claude-code", json.dumps({"permissions": {"allow": rules}}))
    assert all(each.rules for each in policy.lines)
    with pytest.raises(ConfigError, match="are more than fit into one policy"):
        made("claude-code", json.dumps({"permissions": {"allow": [f"Bash(frob{n} x:*)" for n in range(800)]}}))
