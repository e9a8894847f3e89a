"""The action that an agent proposes, and the digest that identifies it.

An approval is for one exact action. The digest binds it: SHA-256 over the RFC 8785 canonical JSON
(`rfc8785`) of everything that decides what will happen when the action runs.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

from humanlayer_agent.canonical_json import canonical, encodable

BASH = ("bash", "--norc", "--noprofile", "-c")
"""How a judged command is run: as bash, because it was judged as bash, and with no start-up files."""

FUNCTION = "function"
"""The type of a call of a function, or of a tool of which only its name and what it is given are known."""

PLAN = "plan"
"""The type of what is no action: what a task will need (`policy.plan`). It is judged and approved, and never runs."""

QUESTION = "question"
"""The type of a question of an agent to a human (`approvals.questions`): it is answered in words, and nothing runs."""

INERT = frozenset({PLAN, QUESTION})
"""Types of what is put before humans and never runs, whatever they say."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode
_UNSTABLE_ENV = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file whose text was judged as part of an action.

    Args:
        path: where it is, as an absolute path.
        sha256: the SHA-256 (hex) of its bytes.

    Example:
        >>> FileDigest("/srv/app/run.sh", "0" * 64).path
        '/srv/app/run.sh'
    """

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the agent wants to do.

    Args:
        content: the command line, exactly as it would be handed to the interpreter.
        type: "bash", `FUNCTION`, or `PLAN`.
        cwd: the absolute directory it starts in.
        project: the absolute directory the agent works for; fixed by the supervisor, never by an action.
        interpreter: argv prefix that the content is appended to.
        env: the variables the command will be given (only a digest of them is stored).
        stdin: what the command reads from its standard input.
        agent: who proposes it (name or instance); part of the digest.
        requester: who started the run, as the Gate says; not part of the digest.
        cost: what it costs, as whoever has it judged says, for limits of the policy; None where nobody says. Not part
            of the digest.
        run_id, step, call_id: where in the run it stands; not part of the digest.
        model_intent: the model's own words. Untrusted, and shown as such.
        question: the digest of the hook's question that it came with, for the log; not part of the digest.
        subagent: what kind of agent of the agent's own wants it, as it says; not part of the digest.
        tool: the name of the tool that the agent calls, where it is known (see `tool_arguments`).
        arguments: what that tool is given: a JSON object, as `tool_arguments` writes it.
        layer: the digest of what a held run of it has changed, which is applied in its place; "" where it runs itself.

    Example:
        >>> Action("ls -la", cwd="/srv/app").digest("0" * 64)[:8]
        '0f6c82cb'
    """

    content: str
    type: str = "bash"
    cwd: str = ""
    project: str = ""
    interpreter: tuple[str, ...] = BASH
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    stdin: bytes = b""
    agent: str = ""
    run_id: str = ""
    step: int = 0
    call_id: str = ""
    model_intent: str = ""
    question: str = ""
    subagent: str = ""
    tool: str = ""
    arguments: str = ""
    requester: str = ""
    cost: float | None = None
    layer: str = ""

    def body(self, policy_digest: str, files: Sequence[FileDigest] = ()) -> dict[str, Any]:
        """Return the JSON value that is hashed, stored with a request, and rendered for the human.

        Args:
            policy_digest: identifies the policy that judged the action (`Director.digest`).
            files: the files whose text was judged.
        """
        return {
            "type": self.type,
            "command": encodable(self.content),
            "cwd": encodable(self.cwd),
            "project": encodable(self.project),
            "interpreter": list(self.interpreter),
            "agent": encodable(self.agent),
            "policy": policy_digest,
            "env": self.env_digest(),
            "stdin": sha256(self.stdin).hexdigest(),
            "files": [{"path": encodable(f.path), "sha256": f.sha256} for f in files],
            **({"tool": encodable(self.tool), "arguments": encodable(self.arguments)} if self.tool else {}),
            **({"layer": self.layer} if self.layer else {}),
        }

    def digest(self, policy_digest: str, files: Sequence[FileDigest] = ()) -> str:
        """Return the SHA-256 (hex) of the canonical JSON of `body`: an approval is for this digest and no other.

        Args:
            policy_digest: identifies the policy that judged the action (`Director.digest`).
            files: the files whose text was judged.
        """
        return sha256(canonical(self.body(policy_digest, files))).hexdigest()

    def env_digest(self) -> str:
        """Return the SHA-256 (hex) of names and values of `env`, without those that bash itself rewrites."""
        return _env_digest(frozenset(self.env.items()))


def called(name: str, given: Mapping[str, Any], *, cwd: str = "", project: str = "") -> Action:
    """Return the call of a tool as an action: what a human sees of it, and approves, is its name and all it is given.

    Args:
        name: letters, digits and the signs `_ . : / -`, as programs know it.
        given: what the tool is given, as JSON can say it.
        cwd, project: see `Action`.

    Raises:
        ValueError: that is no name, or what it is given can't be shown to a human.

    Example:
        >>> called("mcp__forge__close", {"issue": 12}).content
        'mcp__forge__close({"issue": 12})'
    """
    if not _TOOL.fullmatch(name):
        raise ValueError(f"a tool can't be called {name[:100]!r}")
    try:
        if not isinstance(given, Mapping) or not _has_names(given):
            raise TypeError("an object with texts for keys is needed")
        shown = json.dumps(given, ensure_ascii=False, allow_nan=False)
        arguments = tool_arguments(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"what {name} is given can't be said as JSON: {error}") from None
    if len(shown) > MOST_SHOWN:
        raise ValueError(
            f"what {name} is given is too long to be shown ({len(shown)} characters, at most {MOST_SHOWN})"
        )
    content = f"{name}({shown})"
    return Action(content, FUNCTION, cwd, project, interpreter=("tool", "call"), tool=name, arguments=arguments)


def _has_names(value: Any) -> bool:
    """Tell whether all keys are texts: JSON would write others as texts that another key may be as well."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _has_names(each) for key, each in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_names, value))


MOST_SHOWN = 65_536
"""Most characters of what a tool is given that are put before a human."""
_TOOL = re.compile(r"[\w.:/-]{1,200}", re.ASCII)


def tool_arguments(given: Mapping[str, Any]) -> str:
    """Return what a tool is given as a JSON object: of a text of over `LONGEST_ARGUMENT` characters its digest alone.

    Args:
        given: what is JSON as it is; paths and bytes as texts, numbers that are whole without a point. Of anything else
            stands what `repr` says, below a key that nothing else has (`HIDDEN`).

    Raises:
        ValueError: it is too deep, or no JSON can say it.

    Example:
        >>> tool_arguments({"path": "/srv/app/a", "copies": 2.0})
        '{"copies":2,"path":"/srv/app/a"}'
    """
    return json.dumps(_shown(given, 0), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


LONGEST_ARGUMENT = 2000
"""Most characters of a text that a tool is given, of which the text is kept."""
HIDDEN = "\0"
"""The key of what stands for something that is not kept as it is. Keys of a tool that begin so get another one."""
_DEEPEST = 32


def _shown(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("what the tool is given is too deep")
    if isinstance(value, os.PathLike | bytes):
        value = os.fsdecode(value)
    if isinstance(value, str) and len(value) > LONGEST_ARGUMENT:
        return {HIDDEN: [len(value), sha256(value.encode("utf-8", "surrogatepass")).hexdigest()]}
    if isinstance(value, Mapping):
        return {_key(key): _shown(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each, depth + 1) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, str | int | float | None) else {HIDDEN: repr(value)}


def _key(key: object) -> str:
    return f"{HIDDEN}{key}" if str(key).startswith(HIDDEN) else str(key)


@lru_cache(maxsize=16)
def _env_digest(variables: frozenset[tuple[str, str]]) -> str:
    """The digest of variables; those of a run's commands are the same, most of the time."""
    stable = [[encodable(k), encodable(v)] for k, v in sorted(variables) if k not in _UNSTABLE_ENV]
    return sha256(canonical(stable)).hexdigest()
