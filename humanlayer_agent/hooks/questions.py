"""The questions of hooks, and how they are answered: in each coding agent's own form."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from humanlayer_agent.hooks import log_proof
from humanlayer_agent.hooks.coding_agents import CodingAgent
from humanlayer_agent.locations import is_inside
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.tools.calls import Call, NotACall, call_of, loaded

Verdict = Literal["allow", "deny", "ask", "none"]
Inputs = Mapping[str, Any]


class BadQuestion(Exception):
    """A question that is not understood: it is refused."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an agent. `none` leaves the call to its own rules, `ask` puts it before the person who uses it.

    `reason` is for the model where it is a denial, else for the person. `command` is what is to run instead of what was
    proposed ("": the same). `stop` ends the agent's work.
    """

    verdict: Verdict
    reason: str = ""
    command: str = ""
    stop: bool = False


class Question:
    """A question of an agent's hook, and what the log says of it so that its answer can be proved (see `log_proof`).

    Args:
        agent: who asks.
        data: the agent's own words.
        digest: of all that was asked.
        nonce: what is used in this question only.
        hook: the process that asks; None where nobody can say.

    Raises:
        BadQuestion: it is not understood.
    """

    def __init__(
        self, agent: CodingAgent, data: bytes, digest: str = "", nonce: bytes = b"", hook: int | None = None
    ) -> None:
        self.agent = agent
        self.hook = hook
        self.digest = digest
        self._nonce = nonce
        self._body = _object_of(data)
        self.asked_after = -1  # the number of the last event before it was judged
        self.event = self.said("event") if agent.event else ""
        self.ended = self.event in agent.after
        """The call has been made: what became of it is told."""
        self.failed = self.ended and self.event != agent.after[0]
        if self.event not in (agent.event, *agent.also) and not self.ended:
            raise BadQuestion(f"this hook is for {agent.event}, and was called for {self.event!r}")
        name, inputs = self._called()
        if isinstance(inputs, str):  # Copilot CLI had them as JSON in a text
            inputs = _object_of(inputs)
        if not isinstance(name, str) or not isinstance(inputs, dict):
            raise BadQuestion(f"{agent.fields['name']} or {agent.fields['inputs']} is missing")
        self.name: str = name
        self.inputs: Inputs = inputs
        try:
            self.call: Call = call_of(agent.name, name, inputs)
        except NotACall as error:
            raise BadQuestion(str(error)) from None

    def _called(self) -> tuple[Any, Any]:
        """Return which tool is called, and what it is given, as the event that tells of it has them."""
        name, inputs = self.said("name"), self.said("inputs")
        if self.event == self.agent.event or self.ended:
            return name, inputs
        called, given = self.agent.also[self.event]
        if "{}" in called and not isinstance(name, str):
            return None, None
        return called.format(name), {each: self._body.get(each) for each in given} if given else inputs

    def said(self, field: str, default: Any = None) -> Any:
        """Return what a field of it says (see `coding_agents.PRE_TOOL_USE`)."""
        if field not in self.agent.fields:
            return default
        found: Any = self._body
        for key in self.agent.fields[field].split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return default if found is None else found

    def directory(self, project: Path) -> str:
        """Return the directory in which the call is made.

        Raises:
            BadQuestion: it is none.
        """
        cwd = self.said("cwd") or str(project)
        if not isinstance(cwd, str) or not os.path.isabs(cwd):
            raise BadQuestion("cwd is no absolute path")
        return os.path.normpath(os.path.join(cwd, self.call.directory))

    @property
    def mode(self) -> object:
        """The permission mode of the agent."""
        name = self.agent.fields.get("mode")
        return self._body.get(name, "default") if name else "default"

    @property
    def called(self) -> tuple[str, str, str]:
        """Which call it is: the agent, its session, and the agent's own name of the call."""
        return self.agent.name, str(self.said("session") or ""), str(self.said("call") or "")

    @property
    def runs(self) -> bool:
        """Tell whether the call is a command, and no other call that is judged as one."""
        return self.call.kind == "command"

    def rendered(self, reply: Reply) -> bytes:
        """Return what the agent is to read; a denial is said by `client.deny`."""
        out = _FORMS[self.agent.form](reply, self.inputs)
        return b"" if out is None else json.dumps(out).encode() + b"\n"

    def receipt(self, reply: Reply) -> dict[str, str]:
        """Return what the log says of it, and of this answer, that nobody can guess either from."""
        return {"question": self.digest, "reply": log_proof.digest(self._nonce, self.rendered(reply))}


def _object_of(data: bytes | str) -> dict[str, Any]:
    """The object that an agent has sent.

    Raises:
        BadQuestion: it is none.
    """
    try:
        found = loaded(data)
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"what was asked is no JSON ({type(error).__name__}: {str(error)[:100]})") from error
    if not isinstance(found, dict):
        raise BadQuestion("what was asked is no JSON object")
    return found


# ---- the forms of what is no denial


def _pre_tool_use(reply: Reply, inputs: Inputs) -> dict[str, Any] | None:
    if reply.verdict == "none":
        return None
    specific: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": reply.verdict,
        "permissionDecisionReason": reply.reason,
    }
    if reply.command:
        specific["updatedInput"] = {**inputs, "command": reply.command}
    return {"hookSpecificOutput": specific}


def _decision(reply: Reply, inputs: Inputs) -> dict[str, Any] | None:
    if reply.verdict == "none":
        return None
    out: dict[str, Any] = {"decision": reply.verdict, "reason": reply.reason}
    if reply.command:
        out["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": {**inputs, "command": reply.command}}
    return out


def _permission_decision(reply: Reply, inputs: Inputs) -> dict[str, Any] | None:
    if reply.verdict == "none":
        return None
    out: dict[str, Any] = {"permissionDecision": reply.verdict, "permissionDecisionReason": reply.reason}
    if reply.command:
        out["modifiedArgs"] = {**inputs, "command": reply.command}
    return out


def _plugin(reply: Reply, inputs: Inputs) -> dict[str, Any]:
    """Our own plugin goes on by a word only."""
    changed = {"command": reply.command} if reply.command else {}
    return {"decision": reply.verdict, "reason": reply.reason, **changed}


def _permission(reply: Reply, inputs: Inputs) -> dict[str, Any]:
    """Cursor takes no word at all for a hook that has failed."""
    return {} if reply.verdict == "none" else {"permission": reply.verdict}


_FORMS: Mapping[str, Callable[[Reply, Inputs], dict[str, Any] | None]] = {
    "pre-tool-use": _pre_tool_use,
    "decision": _decision,
    "permission-decision": _permission_decision,
    "plugin": _plugin,
    "cancel": lambda reply, inputs: {"cancel": False},
    "permission": _permission,
}


# ---- a command that has bash run another, whichever shell it is given to

_WRAPPED = (
    f'cd -- "$1" || exit 126; export {SUPERVISED}=1; if [ -t 1 ] || [ -t 2 ]; then set -o pipefail; '
    '/bin/bash --norc --noprofile -p -c -- "$0" </dev/null 2>&1 | /bin/cat; '
    'else exec /bin/bash --norc --noprofile -p -c -- "$0" </dev/null; fi'
)
"""-p: nor does it read what BASH_ENV names. Nobody is to type into what runs; without a terminal no pager waits."""


def in_bash(text: str, directory: str = ".") -> str:
    """Return the command that has bash run `text` with nothing on its standard input, whichever shell it is given to.

    Codex lets its agent choose the shell of each command, and type into it while it runs; its hooks see neither, and
    those of some versions are not told in which directory it will run. bash, sh and zsh read quoted words alike.

    Args:
        text: the command.
        directory: in which it was judged; without that it does not run.

    Example:
        >>> in_bash("ls -l").startswith("exec /bin/bash --norc --noprofile -p -c ")
        True
    """
    return f"exec /bin/bash --norc --noprofile -p -c {shlex.join([_WRAPPED, text, directory])}"


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
