"""Trials: what a policy that somebody is writing says of a command, found out within bounds.

Either text may be made to cost time or memory. So a trial is a process of its own, forked from one that has everything
loaded, with limits that the kernel keeps: it ends by them whatever it is doing. It reads what the Director reads of the
disk; it can write no file and start no program, and nothing of what it judges runs.

python -I -B -m humanlayer_agent.policy_tools.trial SETTING answers one JSON object a line.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.locations import data_file

if TYPE_CHECKING:
    from humanlayer_agent.action import Action
    from humanlayer_agent.policy.decision import PolicyDecision

MAX_COMMAND = 20_000
MAX_POLICY = 100_000
"""Characters of either text."""
MAX_ANSWER = 4_000_000
"""Bytes of an answer."""
WAIT = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """What every trial has in common, as it was when they began.

    Args:
        project: the directory that the agent works for.
        cwd: where the command starts.
        file: where the policy is to stand; what it extends is relative to its folder, and no file outside of `within`.
        confined: judge as if what is allowed could be confined.
        seconds, megabytes: what one trial may take, of a processor and of memory; by the clock it is WAIT times as
            long, for machines that do something else as well.
    """

    project: str
    cwd: str
    file: str
    within: str
    confined: bool = False
    seconds: int = 5
    megabytes: int = 1024


def setting_for(policy: str, project: Path, cwd: Path | None, *, confined: bool = False) -> Setting:
    """Return the setting in which a policy is tried.

    Args:
        policy: the one to begin with, a shipped one or a file. What stands in the page may extend what ships, and files
            in the folders that this one is made of.
        project: the directory that the agent works for.
        cwd: where commands start; None: here, if that is in the project, else there.

    Raises:
        PolicyError: there is no such policy.
    """
    from humanlayer_agent.policy.language import loader, sources
    from humanlayer_agent.policy.layers.trust import own_files

    named = os.path.abspath(loader.named(policy))
    folder, file = str(project / ".humanlayer"), "policy.yaml"
    if not sources.name_of(named).startswith(sources.BUILTIN):
        folder, file = os.path.split(named)
        with suppress(HumanlayerError):  # one that has a mistake is what somebody wants to mend here
            folder = os.path.commonpath([os.path.dirname(each) for each in own_files(loader.load(named, tested=False))])
        file = os.path.relpath(named, folder)
    here = os.getcwd()
    start = str(cwd.absolute()) if cwd is not None else here if Path(here).is_relative_to(project) else str(project)
    return Setting(str(project), start, os.path.join(folder, file), folder, confined)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a trial, as markup for the page.

    Args:
        verdict: in a line, or what is wrong.
        details: parts, effects, rules.
        prompt: what a human would be shown.
        tests: what became of the tests in the policy's own rules.
    """

    verdict: str = ""
    details: str = ""
    prompt: str = ""
    tests: str = ""


class Trials:
    """A process that makes trials, one after another; started again where it was ended.

    Example:
        with Trials(Setting("/srv/app", "/srv/app", "/srv/app/policy.yaml", "/srv/app")) as trials:
            print(trials.judge("rm -rf /", "version: 1\\npolicy: mine\\n").verdict)
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def __enter__(self) -> "Trials":
        with self._lock:
            self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, also in the middle of a trial: whoever waits for that is told that it could not be made."""
        self._closed = True
        _kill(self._process)
        with self._lock:
            self._end()

    def judge(self, command: str, policy: str) -> Answer:
        """Judge a command by a policy. Every mistake in either is an answer."""
        if len(command) > MAX_COMMAND or len(policy) > MAX_POLICY:
            return failed(f"too long: at most {MAX_COMMAND:,} characters of a command and {MAX_POLICY:,} of a policy")
        line = json.dumps({"command": command, "policy": policy}).encode() + b"\n"
        with self._lock:
            for _ in range(2):  # the second time where somebody has ended the process meanwhile
                if self._closed:
                    break
                process = self._begin()
                assert process.stdin is not None
                assert process.stdout is not None
                with suppress(OSError, ValueError, TypeError):
                    process.stdin.write(line)
                    process.stdin.flush()
                    return Answer(**json.loads(process.stdout.readline()))
                self._end()
        return failed("it could not be judged: the process that judges was ended")

    def _begin(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            words = [sys.executable, "-I", "-B", "-m", __name__, json.dumps(asdict(self._setting))]
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        _kill(process)
        process.wait()


def _kill(process: "subprocess.Popen[bytes] | None") -> None:
    """End a process that makes trials, with the trial that it makes."""
    with suppress(ProcessLookupError):
        if process is not None and process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)


def failed(words: str) -> Answer:
    """Return the answer that says why there is none."""
    return Answer(*_rendered(wrong=words, line=0))


# ---- in the process ---------------------------------------------------------------------------------------


def main() -> None:
    """Answer each line of standard input, until it ends."""
    setting = Setting(**json.loads(sys.argv[1]))
    answers, sys.stdout = sys.stdout, sys.stderr
    _judged(setting, "true", begun("default"))  # loads what all trials need
    policy, tests = "", ""
    for line in sys.stdin:
        wanted = json.loads(line)
        found = _forked(setting, partial(_judged, setting, wanted["command"], wanted["policy"]))
        if wanted["policy"] != policy:  # they cost more than one command, and are the same for each
            policy = wanted["policy"]
            made = _forked(setting, partial(_tested, setting, policy))
            tests = made.tests or next(_rendered(parts=("tests",), untested=bool(made.verdict)))
        answers.write(json.dumps(asdict(replace(found, tests=tests))) + "\n")
        answers.flush()


def _forked(setting: Setting, make: Callable[[], Answer]) -> Answer:
    """Make an answer in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            _limit(setting)
            said = json.dumps(_outcome(make)).encode()
            with os.fdopen(writer, "wb") as stream:
                stream.write(said[: MAX_ANSWER + 1])
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL):
        return failed(f"it takes too long to judge: that may take {setting.seconds} s of a processor")
    if status != 0:
        return failed(f"it takes too much memory to judge: that may take {setting.megabytes} MB")
    if len(content) > MAX_ANSWER:
        return failed("there is too much to say of it: more than a page can show")
    found = json.loads(content)
    if "broke" not in found:
        return Answer(**found)
    print(f"hla policy serve: {found['broke']}", file=sys.stderr, flush=True)
    return failed("it could not be judged: something went wrong here, and the terminal says what")


def _outcome(make: Callable[[], Answer]) -> dict[str, str]:
    """Return the answer as data; of what broke, which error it was (this process may not write it to a file)."""
    try:
        return asdict(make())
    except MemoryError:
        raise
    except Exception as error:
        from humanlayer_agent.safe_text import one_line

        return {"broke": one_line(f"{type(error).__name__}: {error}")[:500]}


def _limit(setting: Setting) -> None:
    """Have the kernel end this process in time, and keep it from writing and from starting anything."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(WAIT * setting.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (setting.seconds, setting.seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (setting.megabytes << 20, setting.megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # what stands there is the next trial's


def _judged(setting: Setting, command: str, text: str) -> Answer:
    from humanlayer_agent.configuration import build_director
    from humanlayer_agent.policy.explanation.explain import explain
    from humanlayer_agent.policy.language.loader import read_draft
    from humanlayer_agent.tools.calls import written

    try:
        policy = read_draft(text, Path(setting.file), within=setting.within)
        director = build_director(policy, project=setting.project, tested=False, confined=setting.confined)
        action = replace(written(command, cwd=setting.cwd), project=setting.project)
        if not command.strip():
            return Answer(*_rendered())
        found = explain(director, action)
        # Should a human approve what is asked, it may run unconfined: by that it is judged, and shown.
        decision = director.evaluate(action) if setting.confined else found.decision
    except HumanlayerError as error:
        return Answer(*_rendered(wrong=str(error), line=_line(str(error), Path(setting.file).name)))
    except RecursionError:
        return failed("it is nested too deeply to be judged")
    return Answer(*_rendered(found=found, decision=decision, prompt=_prompt(action, decision)))


def _tested(setting: Setting, text: str) -> Answer:
    """Run the tests in the policy's own rules: one that fails them is never loaded."""
    from humanlayer_agent.policy.language import examples
    from humanlayer_agent.policy.language.loader import read_draft

    try:
        policy = read_draft(text, Path(setting.file), within=setting.within)
    except HumanlayerError:
        return Answer()  # it is told where it is judged
    try:
        examples.check(policy, ("REPOSITORY",) if setting.confined else ())
    except HumanlayerError as error:
        failure = {"failure": str(error), "line": _line(str(error), Path(setting.file).name)}
        return Answer(tests=next(_rendered(parts=("tests",), **failure)))
    return Answer()


def _line(message: str, name: str) -> int:
    """Return the line of the policy that a message is about; 0 where it names none of it."""
    number = message.removeprefix(f"{name}:").partition(":")[0]
    return int(number) if message.startswith(f"{name}:") and number.isascii() and number.isdigit() else 0


# ---- what is shown ----------------------------------------------------------------------------------------


def _prompt(action: "Action", decision: "PolicyDecision") -> dict[str, Any]:
    """Return what a human would be shown: the command as it is marked, rows of the terminal, blocks of Slack."""
    from humanlayer_agent.approvals.model import ApprovalRequest
    from humanlayer_agent.channels.contract import Outcome
    from humanlayer_agent.channels.plain_text import rows
    from humanlayer_agent.channels.presentation import present
    from humanlayer_agent.channels.slack import message
    from humanlayer_agent.policy.decision import Verdict

    request = ApprovalRequest("trial", "", "0" * 64, {}, action, decision, "os", 0, _SHOWN_MS, _SHOWN_MS)
    view = present(request)
    asked = decision.verdict is Verdict.ASK and decision.enforced
    posted = message.asking(Outcome(request, missing=1), message.shown(request), message.Attachment.NONE, (), now=0)
    return {
        "command": view.command,
        "warnings": view.warnings,
        "terminal": [row.fragments for row in rows(view, _COLUMNS)] if asked else [],
        "slack": posted.blocks if asked else [],
    }


_COLUMNS = 76
_SHOWN_MS = 3_600_000
"""How long the request that is shown would wait."""


def _rendered(parts: Sequence[str] = ("verdict", "details", "prompt"), **values: Any) -> Iterator[str]:
    """Render each part of an answer."""
    from humanlayer_agent.policy.effect_phrases import whole
    from humanlayer_agent.policy.explanation.explain import described, origin_of
    from humanlayer_agent.policy.explanation.why_not import changes

    made = _environment()
    known = {"wrong": "", "line": 0, "found": None, "decision": None, "prompt": None, "failure": "", "untested": False}
    shown = {"whole": whole, "described": described, "origin_of": origin_of, "changes": changes}
    for name in parts:
        yield made.get_template("trial.html").render(part=name, **{**known, **values}, **shown)


@cache
def _environment() -> Any:
    from humanlayer_agent.channels.html_templates import html_templates

    return html_templates(data_file("channels/web", "page.html").parent)


def begun(policy: str) -> str:
    """Return the text to begin with: the file of a policy, or for one that ships a policy that goes on from it.

    Raises:
        PolicyError: there is no such policy, or it can't be read.
    """
    from humanlayer_agent.policy.language import loader, sources

    named = loader.named(policy)
    name = sources.name_of(named)
    if not name.startswith(sources.BUILTIN):
        return sources.read(named).decode("utf-8", "backslashreplace")
    return (
        f"version: 1\npolicy: mine\nextends: [{name}]\n\n"
        "# Rules of your own, beside those of what is extended.\n"
        "rules: []\n"
    )


if __name__ == "__main__":
    main()
