"""Coding agents: what the questions of their hooks look like, and how they want to be answered.

Calls that read or write a file, or fetch from the network, are judged as the shell command that does the same; those of
MCP servers, and others of which nobody can tell what they do, as calls of functions, by their names. All of these can
only become stricter by it: where the policy allows them, the tool's own rules decide. Calls that do nothing by
themselves (`leaves`) are left to these rules, unless the policy names the tool.

Our hook in Claude Code's settings: what is added to them, and nothing else of them is changed.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.client import CONFINE
from humanlayer_agent.locations import is_inside
from humanlayer_agent.processes.execution import SUPERVISED

Verdict = Literal["allow", "deny", "ask", "none"]
Inputs = Mapping[str, Any]

_BLANKS = "\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What is taken away at both ends by the `trim` of JavaScript or Rust, or Python's `strip`."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:\S*", re.IGNORECASE)
_PLAIN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[\w.:~/?#%&=+,;()!*$-]+", re.IGNORECASE | re.ASCII)
"""An address that every program understands in one way: no name of a user, no backslash, no quotes."""
_PATCHED = re.compile(r"^\s*\*\*\* (Add File|Update File|Delete File|Move to): (.*)$", re.MULTILINE)
_NAME = re.compile(r"[\w.:-]{1,200}")
MAX_SHOWN = 65_536
"""Most characters of a call that is judged by its name."""


class BadQuestion(Exception):
    """A question that is not understood: it is refused."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the tool. `none` leaves the call to its own rules, `ask` puts it before the person who uses it.

    `reason` is for the model where it is a denial, else for the person. `command` is what is to run instead of what was
    proposed ("": the same). `stop` ends the tool's work.
    """

    verdict: Verdict
    reason: str = ""
    command: str = ""
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A coding agent.

    Attributes:
        name: what `hla hook` calls it, and the agent's name in the log.
        event: the hook event that is answered.
        after: the hook events by which it says that a call has ended: the first well, any other not. Older versions
            know the first alone.
        replaceable: the permission modes in which a command may be replaced by one that runs confined; a mode that we
            don't know may mean that nothing is to run, or something else than we think.
        project: the environment variable with the project's directory.
        shells: environment variables that name the shell it runs commands with, the first that is set counts. None: it
            always uses bash.
        around: environment variables that name what runs with every command (a wrapper, a file that is sourced first).
        runs: its calls that run a shell command, each with how the command is found in its input.
        touches: its calls that read, write or fetch something, each with a command that does the same.
        leaves: its calls that do nothing of which it would not ask by other calls: lists of tasks, sub-agents, plans.
            Where some are named, it asks before every call, and of those that no table names nothing is known.
        foreign: its calls of which nothing is known but the name and what they are given, as a regular expression.
        prompts: whether it can be told to ask its user, by the `permission_mode` of a question.
        render: its form of a reply that is no denial: what is printed, as an object. `inputs` are those of the call.
            (`client.deny` says no.)
        rewritten: what a command that is allowed is given back as, where it would not run as it was judged otherwise.
        unsafe: why even that would not run as it was judged, by the environment and the project; "" where it would.
    """

    name: str
    event: str
    after: tuple[str, ...]
    replaceable: frozenset[str]
    project: str
    shells: tuple[str, ...]
    around: tuple[str, ...]
    runs: Mapping[str, Callable[[Inputs], str]]
    touches: Mapping[str, Callable[[Inputs], str]]
    foreign: str
    prompts: frozenset[str]
    render: Callable[[Reply, Inputs], dict[str, Any]] = field(repr=False)
    rewritten: Callable[[str], str] | None = None
    unsafe: Callable[[Mapping[str, str], Path], str] | None = None
    leaves: frozenset[str] = frozenset()

    def is_foreign(self, call: str) -> bool:
        """Tell whether nothing is known of a call but its name and what it is given."""
        known = call in self.runs or call in self.touches or call in self.leaves
        return not known and (bool(self.leaves) or re.fullmatch(self.foreign, call, re.DOTALL) is not None)

    def matcher(self) -> str:
        """The calls before which it asks, as its settings name them."""
        return "*" if self.leaves else "|".join((*self.runs, *self.touches, self.foreign))


def text_of(inputs: Inputs, *names: str) -> str:
    """The first of these inputs that is there.

    Raises:
        BadQuestion: there is none, or it is no text.
    """
    for name in names:
        if name in inputs:
            if not isinstance(inputs[name], str):
                raise BadQuestion(f"{name} is no text")
            return str(inputs[name])
    raise BadQuestion(f"the call has no {names[0]}")


def command(inputs: Inputs) -> str:
    """The shell command of a call."""
    return text_of(inputs, "command")


def spellings(path: str) -> list[str]:
    """The words by which a shell finds every file that a tool may take `path` for.

    Tools open it as it is written, or (some versions of Claude Code) without the blanks around it, with `~/` for the
    home directory, and composed (Unicode's NFC). Which of it they do we can't tell: what is true of one counts.

    Example:
        >>> spellings("~/.ssh/config")
        ["'~/.ssh/config'", '~/.ssh/config']
    """
    trimmed = path.strip(_BLANKS)
    words = [shlex.quote(each) for each in dict.fromkeys((path, trimmed or ".", unicodedata.normalize("NFC", trimmed)))]
    if trimmed == "~" or trimmed.startswith("~/"):
        words += [f"~/{shlex.quote(trimmed[2:])}" if trimmed[2:] else "~/"]
    return words


def written(*names: str) -> Callable[[Inputs], str]:
    """A call that changes the file that one of these inputs names."""
    return lambda inputs: " ".join(f"> {word}" for word in spellings(text_of(inputs, *names)))


def read(*names: str) -> Callable[[Inputs], str]:
    """A call that reads the file that one of these inputs names; where several are there, any of them."""

    def find(inputs: Inputs) -> str:
        paths = [text_of(inputs, name) for name in names if name in inputs] or [text_of(inputs, names[0])]
        return f"cat -- {' '.join(word for path in paths for word in spellings(path))}"

    return find


def searched(*names: str, only: Sequence[str] = ()) -> Callable[[Inputs], str]:
    """A call that searches the folder or file that one of these inputs names; without one, the directory it is in. Of
    inputs called as in `only`, the value is a pattern for the names of files that are searched.
    """

    def find(inputs: Inputs) -> str:
        where = text_of(inputs, *names) if any(inputs.get(name) is not None for name in names) else "."
        files = [text_of(inputs, name) for name in only if inputs.get(name) is not None]
        options = " ".join(f"--include={shlex.quote(each)} " for each in files)
        return f"grep -r {options}-e {shlex.quote(text_of(inputs, 'pattern'))} -- {' '.join(spellings(where))}"

    return find


def fetched(address: str, *, named_in: str = "") -> Callable[[Inputs], str]:
    """A call that fetches from the address that one input is, and from those that another one names in its text."""

    def find(inputs: Inputs) -> str:
        addresses = [text_of(inputs, address)] if address in inputs or not named_in else []
        if named_in and named_in in inputs:
            addresses += _ADDRESS.findall(text_of(inputs, named_in))
        if not addresses or not all(map(_PLAIN_ADDRESS.fullmatch, addresses)):
            return 'curl -- "$ADDRESS"'
        return f"curl -g -- {' '.join(map(shlex.quote, addresses))}"

    return find


def watched(inputs: Inputs) -> str:
    """A call that watches what a command prints, or what comes from a web socket."""
    socket = inputs.get("ws")
    return command(inputs) if not isinstance(socket, dict) or "command" in inputs else fetched("url")(socket)


def called(name: str, inputs: Inputs) -> str:
    """A call of which nobody can tell what it does: its name, and all that it is given.

    Raises:
        BadQuestion: that can't be shown to a human.

    Example:
        >>> called("mcp__forge__close", {"issue": 12})
        'mcp__forge__close({"issue": 12})'
    """
    text = f"{name}({json.dumps(inputs, ensure_ascii=False)})"
    if not _NAME.fullmatch(name):
        raise BadQuestion("the call has no proper name")
    if len(text) > MAX_SHOWN:
        raise BadQuestion(f"what {name} is given is too long to be shown ({len(text)} characters, at most {MAX_SHOWN})")
    return text


def _claude_code(reply: Reply, inputs: Inputs) -> dict[str, Any]:
    if reply.verdict == "none":
        return {}
    specific: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": reply.verdict,
        "permissionDecisionReason": reply.reason,
    }
    if reply.command:
        specific["updatedInput"] = {**inputs, "command": reply.command}
    return {"hookSpecificOutput": specific}


_WRAPPED = (
    f"export {SUPERVISED}=1; if [ -t 1 ] || [ -t 2 ]; then set -o pipefail; "
    '/bin/bash --norc --noprofile -p -c -- "$0" </dev/null 2>&1 | /bin/cat; '
    'else exec /bin/bash --norc --noprofile -p -c -- "$0" </dev/null; fi'
)
"""-p: nor does it read what BASH_ENV names. Nobody is to type into what runs; without a terminal no pager waits."""


def in_bash(text: str) -> str:
    """The command that has bash run `text` with nothing on its standard input, whichever shell it is given to.

    Codex lets its agent choose the shell of each command, and type into it while it runs; its hooks see neither. bash,
    sh and zsh read quoted words alike.

    Example:
        >>> in_bash("ls -l").rpartition(" ")[0].startswith("exec /bin/bash --norc --noprofile -p -c ")
        True
    """
    return f"exec /bin/bash --norc --noprofile -p -c {shlex.quote(_WRAPPED)} {shlex.quote(text)}"


def other_shells(environ: Mapping[str, str], project: Path) -> str:
    """Return why the shells that an agent may choose are not those of the machine; "" where they are.

    Args:
        environ: of the tool. project: in which its agent may write.
    """
    folders = environ.get("PATH", "").split(os.pathsep)
    if any(not os.path.isabs(each) or is_inside(Path(each), project) for each in folders):
        return "PATH leads into the project, where the agent could put a shell of its own: start it without that"
    for name in ("pwsh", "powershell"):
        if shutil.which(name, path=os.pathsep.join((*folders, "/usr/local/bin"))) is not None:
            return f"{name} is installed, and reads commands otherwise than we do: start it with a PATH without that"
    if any(not os.access(each, os.X_OK) for each in ("/bin/bash", "/bin/cat")):
        return "there is no /bin/bash here, or no /bin/cat"
    return ""


def patched(*names: str) -> Callable[[Inputs], str]:
    """A call that changes the files that a patch of Codex names."""

    def find(inputs: Inputs) -> str:
        found = _PATCHED.findall(text_of(inputs, *names))
        if not found:
            raise BadQuestion("the patch names no file")
        written = [word for _, file in found for word in spellings(file)]
        gone = [file for what, file in found if what == "Delete File"]
        gone += [file for (_, file), (then, _) in itertools.pairwise(found) if then == "Move to"]
        deletes = [f"rm -f -- {' '.join(word for file in gone for word in spellings(file))}"] if gone else []
        return "; ".join((" ".join(f"> {word}" for word in written), *deletes))

    return find


def _gemini_cli(reply: Reply, inputs: Inputs) -> dict[str, Any]:
    if reply.verdict == "none":
        return {}
    out: dict[str, Any] = {"decision": reply.verdict, "reason": reply.reason}
    if reply.command:
        out["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": {**inputs, "command": reply.command}}
    return out


_LEFT_OF_CLAUDE_CODE = frozenset(
    str.split(
        """
        Agent Task Workflow TeamCreate TeamDelete ListAgents TaskCreate TaskGet TaskList TaskUpdate TaskStop TaskOutput
        TodoWrite TodoRead AgentOutputTool BashOutput KillShell KillBash CronCreate CronDelete CronList ScheduleWakeup
        PushNotification ToolSearch WaitForMcpServers ListMcpResourcesTool EnterWorktree ExitWorktree EnterPlanMode
        ExitPlanMode AskUserQuestion Skill SlashCommand Glob LS LSP WebSearch
        """
    )
)
"""What a sub-agent, a skill or a planned prompt does, it does by calls. https://code.claude.com/docs/en/tools-reference"""

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            # https://code.claude.com/docs/en/hooks
            name="claude-code",
            event="PreToolUse",
            after=("PostToolUse", "PostToolUseFailure"),
            replaceable=frozenset({"default", "acceptEdits", "bypassPermissions", "dontAsk"}),
            project="CLAUDE_PROJECT_DIR",
            shells=("CLAUDE_CODE_SHELL", "SHELL"),
            around=("CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_ENV_FILE"),  # https://code.claude.com/docs/en/env-vars
            runs={"Bash": command},
            touches={
                "Write": written("file_path"),
                "Edit": written("file_path"),
                "MultiEdit": written("file_path"),
                "NotebookEdit": written("notebook_path", "file_path"),
                "Read": read("file_path"),
                "Grep": searched("path", only=["glob"]),
                "NotebookRead": read("notebook_path", "file_path"),
                "Monitor": watched,
                "WebFetch": fetched("url"),
            },
            foreign="",
            # bypassPermissions and dontAsk ask nobody, and of a mode that we don't know we can't tell
            prompts=frozenset({"default", "acceptEdits", "plan"}),
            render=_claude_code,
            leaves=_LEFT_OF_CLAUDE_CODE,
        ),
        Tool(
            # https://geminicli.com/docs/hooks/reference
            name="gemini-cli",
            event="BeforeTool",
            after=(),
            replaceable=frozenset(),
            project="GEMINI_PROJECT_DIR",
            shells=(),
            around=(),
            runs={"run_shell_command": command},
            touches={
                "write_file": written("file_path"),
                "replace": written("file_path"),
                "read_file": read("file_path", "absolute_path"),
                "search_file_content": searched("dir_path", "path", only=["include", "include_pattern"]),
                "grep_search": searched("dir_path", "path", only=["include", "include_pattern"]),
                "web_fetch": fetched("url", named_in="prompt"),
            },
            foreign="mcp_.*",
            prompts=frozenset(),  # its reference documents allow and deny
            render=_gemini_cli,
        ),
        Tool(
            # https://developers.openai.com/codex/hooks
            name="codex",
            event="PreToolUse",
            after=(),
            replaceable=frozenset(),
            project="CODEX_PROJECT_DIR",  # set by the line of the hook: Codex itself says nothing of it
            shells=(),
            around=(),
            runs={"Bash": command},
            touches={
                "apply_patch": patched("command", "input", "patch"),
                "view_image": read("path"),
            },
            foreign="mcp__.*",
            prompts=frozenset(),  # it runs what it is told to ask about
            render=_claude_code,
            rewritten=in_bash,
            unsafe=other_shells,
        ),
    )
}
"""Every coding agent that can be answered, by name."""


def question_of(data: bytes) -> dict[str, Any]:
    """The object that a tool has sent.

    Raises:
        BadQuestion: it is none.
    """
    try:
        question = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"standard input is not JSON ({type(error).__name__})") from error
    if not isinstance(question, dict):
        raise BadQuestion("standard input is not a JSON object")
    return question


_OURS = re.compile(r"\bhumanlayer_agent\.cli hook claude-code\b")
_ASK = re.compile(r"--ask (tool|wait|deny)\b")
_SECONDS = {"wait": (590, 600)}
_USUAL = (50, 60)
_SHELL = "CLAUDE_CODE_SHELL"
_MAX = 8 * 1024 * 1024


def settings_path() -> Path:
    """The user's settings file of Claude Code, where a link to it leads."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return Path(os.path.realpath(Path(folder) / "settings.json"))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings; empty where there is no file.

    Raises:
        ConfigError: it can't be read, or is no JSON object: then it is not touched.
    """
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX) or b"{}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: can't be read as JSON ({error}): mend it first, nothing was changed") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: a JSON object was expected; nothing was changed")
    return found


def hook_entry(ask: str, python: str = sys.executable, *, confine: bool = False) -> dict[str, Any]:
    """Our entry under `hooks.PreToolUse`.

    The tool goes on where a hook can't be started, crashes or is late. Therefore `|| exit 2`, and our own deadline is
    below the tool's. `-I`: nothing in the agent's directory or environment takes the place of our modules.

    Args:
        ask: see `hla hook --help`.
        python: the interpreter that has this package.
        confine: what is allowed is to run confined.
    """
    deadline, timeout = _SECONDS.get(ask, _USUAL)
    options = f"--ask {ask} --deadline {deadline}{f' {CONFINE}' if confine else ''}"
    line = f"{shlex.quote(python)} -I -m humanlayer_agent.cli hook claude-code {options} || exit 2"
    hook = {"type": "command", "command": line, "timeout": timeout}
    return {"matcher": TOOLS["claude-code"].matcher(), "hooks": [hook]}


def with_hook(settings: dict[str, Any], ask: str | None = None, confine: bool | None = None) -> dict[str, Any]:
    """`settings` with our entry, in the place of an older one of ours; the rest is as it was, in its order.

    Commands of the tool are marked as supervised (so that `hla requests approve` and the like refuse them), and run by
    bash, because that is how they are judged: another shell that is named already stays, and then everything asks.

    Args:
        ask: see `hla hook --help`; None keeps that of an older entry, else "tool".
        confine: what is allowed is to run confined; then a second entry hears what became of it. None keeps that of an
            older entry.

    Raises:
        ConfigError: a part of them is not of the type that Claude Code expects.
    """
    tool = TOOLS["claude-code"]
    hooks = _section(settings, "hooks", dict, {})
    after = tool.after[0]
    events, ends = _section(hooks, tool.event, list, []), _section(hooks, after, list, [])
    ask = ask or next((found[1] for each in events if (found := _ASK.search(our_line(each)))), "tool")
    confine = any(CONFINE in our_line(each) for each in events) if confine is None else confine
    entry = hook_entry(ask, confine=confine)
    others, heard = ([each for each in listed if not our_line(each)] for listed in (events, ends))
    heard += [{**entry, "matcher": "|".join(tool.runs)}] if confine else []
    environ = _section(settings, "env", dict, {})
    added = {SUPERVISED: "1"} if environ.get(_SHELL) else {SUPERVISED: "1", _SHELL: shutil.which("bash") or "/bin/bash"}
    return {
        **settings,
        "env": {**environ, **added},
        "hooks": {**hooks, tool.event: [*others, entry], **({after: heard} if heard or ends else {})},
    }


def other_shell(settings: dict[str, Any]) -> str:
    """The shell that these settings name, where it is not bash; else ""."""
    shell = str(settings.get("env", {}).get(_SHELL) or "")
    return shell if shell and os.path.basename(shell) != "bash" else ""


def our_line(entry: Any) -> str:
    """The command of an entry that is ours; "" where it is somebody else's."""
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    lines = [str(each.get("command")) for each in (hooks if isinstance(hooks, list) else []) if isinstance(each, dict)]
    return lines[0] if len(lines) == 1 and _OURS.search(lines[0]) else ""


def _section(where: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    found = where.get(name, default)
    if not isinstance(found, kind):
        raise ConfigError(f"Claude Code's settings: {name} has another form than expected; nothing was changed")
    return found
