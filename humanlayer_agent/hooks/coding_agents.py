"""Coding agents: what the questions of their hooks look like, and how they want to be answered.

Only what a table here names is judged; every other call is left to the tool's own rules. Calls that read or write a
file are judged as the shell command that does the same, and can only become stricter by it: where the policy allows
them, the tool's own rules decide.
"""

import json
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["allow", "deny", "ask", "none"]
Inputs = Mapping[str, Any]

_BLANKS = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What JavaScript's `trim` takes away."""


class BadQuestion(Exception):
    """A question that is not understood: it is refused."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the tool is told. `none` leaves the call to its own rules, `ask` puts it before the person who uses it.

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
        project: the environment variable with the project's directory.
        shells: environment variables that name the shell it runs commands with, the first that is set counts. None: it
            always uses bash.
        around: environment variables that name what runs with every command (a wrapper, a file that is sourced first).
        runs: its calls that run a shell command, each with how the command is found in its input.
        touches: its calls that read or write files, each with a command that does the same.
        prompts: whether it can be told to ask its user, by the `permission_mode` of a question.
        render: its form of a reply: what is printed, as an object. `inputs` are those of the call.
    """

    name: str
    event: str
    project: str
    shells: tuple[str, ...]
    around: tuple[str, ...]
    runs: Mapping[str, Callable[[Inputs], str]]
    touches: Mapping[str, Callable[[Inputs], str]]
    prompts: frozenset[str]
    render: Callable[[Reply, Inputs], dict[str, Any]] = field(repr=False)

    def matcher(self) -> str:
        """The calls that are judged, as its settings name them."""
        return "|".join((*self.runs, *self.touches))


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
    """A call that reads the file that one of these inputs names."""
    return lambda inputs: f"cat -- {' '.join(spellings(text_of(inputs, *names)))}"


def searched(*names: str) -> Callable[[Inputs], str]:
    """A call that searches the folder or file that one of these inputs names; without one, the directory it is in."""

    def find(inputs: Inputs) -> str:
        where = text_of(inputs, *names) if any(inputs.get(name) is not None for name in names) else "."
        return f"grep -r -e {shlex.quote(text_of(inputs, 'pattern'))} -- {' '.join(spellings(where))}"

    return find


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
    stop = {"continue": False, "stopReason": reply.reason} if reply.stop else {}
    return {"hookSpecificOutput": specific, **stop}


def _gemini_cli(reply: Reply, inputs: Inputs) -> dict[str, Any]:
    if reply.verdict == "none":
        return {}
    out: dict[str, Any] = {"decision": reply.verdict, "reason": reply.reason}
    if reply.command:
        out["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": {**inputs, "command": reply.command}}
    stop = {"continue": False, "stopReason": reply.reason} if reply.stop else {}
    return {**out, **stop}


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            # https://code.claude.com/docs/en/hooks
            name="claude-code",
            event="PreToolUse",
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
                "Grep": searched("path"),
            },
            # bypassPermissions and dontAsk ask nobody, and of a mode that we don't know we can't tell
            prompts=frozenset({"default", "acceptEdits", "plan"}),
            render=_claude_code,
        ),
        Tool(
            # https://geminicli.com/docs/hooks/reference
            name="gemini-cli",
            event="BeforeTool",
            project="GEMINI_PROJECT_DIR",
            shells=(),
            around=(),
            runs={"run_shell_command": command},
            touches={
                "write_file": written("file_path"),
                "replace": written("file_path"),
                "read_file": read("file_path", "absolute_path"),
                "search_file_content": searched("dir_path", "path"),
                "grep_search": searched("dir_path", "path"),
            },
            prompts=frozenset(),  # its reference documents allow and deny
            render=_gemini_cli,
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
