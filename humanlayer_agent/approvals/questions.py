"""Questions of an agent to a human: the answer goes to the model as words, and decides nothing.

A question goes the way of any request (the same routes, channels and people, signed answers, the same log), but nothing
can come of it that runs: it is answered in words, or not at all. An agent that only has a shell asks by the command
`hla ask 'Which branch?' --option main --option next`, which is understood and never executed.
"""

import hashlib
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from humanlayer_agent.action import BASH, QUESTION, Action
from humanlayer_agent.approvals.denial_texts import denial_text
from humanlayer_agent.approvals.model import Denial
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.shell import analyse

ROUTE = "questions"
"""The route of questions, where the channels files have one of that name; else they take the default one."""

MAX_LENGTH = 4_000
MAX_OPTIONS = 9

_PROGRAMS = ("hla", "humanlayer-agent")
_REASON = (
    "The agent asks you a question. Answer in words, or with the number of an option where it lists some: that decides "
    "nothing."
)
_POLICY = "question"
_DIGEST = hashlib.sha256(b"humanlayer-agent question 1").hexdigest()


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent wants to know.

    Args:
        text: the question, in the agent's own words: untrusted.
        options: answers that are offered, at most nine; any other words may be given all the same.

    Raises:
        ConfigError: there is no text, too much of it, or an option that is empty or stands twice.
    """

    text: str
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.strip() or len(self.text) > MAX_LENGTH:
            raise ConfigError(f"a question has from 1 to {MAX_LENGTH} characters")
        if len(self.options) > MAX_OPTIONS or len(set(self.options)) != len(self.options):
            raise ConfigError(f"a question has at most {MAX_OPTIONS} different options")
        if not all(option.strip() and "\n" not in option and len(option) <= MAX_LENGTH for option in self.options):
            raise ConfigError("an option of a question is one line of text")

    @property
    def content(self) -> str:
        """Return what a human reads: the question, and its options by number."""
        numbered = [f"{number}. {option}" for number, option in enumerate(self.options, 1)]
        return "\n".join([self.text, *([""] if numbered else []), *numbered])

    def chosen(self, words: str) -> str:
        """Return what `words` mean: the option that they name by its number, or they themselves.

        Example:
            >>> Question("Which branch?", ("main", "next")).chosen("2."), Question("Why?").chosen(" because ")
            ('next', 'because')
        """
        said = words.strip()
        number = said.removesuffix(".")
        if number.isascii() and number.isdigit() and 0 < int(number) <= len(self.options):
            return self.options[int(number) - 1]
        return said


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """The answer to a question.

    Args:
        text: the words, or the option that was chosen; "" where there was no answer.
        by: the principal who gave it; "" where nobody did.
        why: why there is none: declined (with words), nobody answered in time, the run was stopped.
        told: the same as a model is to read it: our text, in which a human's words are marked as data.
        stopped: a human stopped the whole run.

    Example:
        >>> str(HumanAnswer("main", "os:1000:alice"))
        'main'
    """

    text: str
    by: str = ""
    why: str = ""
    told: str = field(default="", compare=False, repr=False)
    stopped: bool = False

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


def question_of(action: Action) -> Question | None:
    """Return the question that a command asks; None where it is not certainly one, and nothing else.

    Example:
        >>> question_of(Action("hla ask 'Which branch?' --option main", cwd="/srv/app"))
        Question(text='Which branch?', options=('main',))
        >>> question_of(Action("hla ask 'Which branch?'; make", cwd="/srv/app")) is None
        True
    """
    if action.type != "bash" or action.interpreter != BASH or not action.content.lstrip().startswith(_PROGRAMS):
        return None
    program = analyse(action.content, cwd=action.cwd or "/", environ=dict(action.env))
    words = [word.text for command in program.commands for word in command.words]
    try:
        same = program.status == "ok" and len(program.commands) == 1 and words == shlex.split(action.content)
    except ValueError:
        return None
    said = [word for word in words if word is not None]
    if not same or said[:1] not in ([each] for each in _PROGRAMS) or said[1:2] != ["ask"]:
        return None
    return _asked(said[2:])


def _asked(words: Sequence[str]) -> Question | None:
    """The question in the words after `hla ask`; None where they are not well formed."""
    texts: list[str] = []
    options: list[str] = []
    ahead = iter(words)
    for word in ahead:
        name, equals, value = word.partition("=")
        if name in ("--option", "-o"):
            options.append(value if equals else next(ahead, ""))
        elif word.startswith("-"):
            return None
        else:
            texts.append(word)
    try:
        return Question(texts[0], tuple(options)) if len(texts) == 1 else None
    except ConfigError:
        return None


def decision_on(question: Question, routes: Collection[str]) -> PolicyDecision:
    """Return the decision that a question is put before humans with: no policy judges it, and nothing comes of it that
    could run.

    Args:
        routes: the names of the routes that there are.
    """
    return PolicyDecision(
        Verdict.ASK, _REASON, _POLICY, _DIGEST, severity="low", route=ROUTE if ROUTE in routes else "default"
    )


def action_of(question: Question, action: Action) -> Action:
    """Return the action that stands for a question: nothing runs it.

    Args:
        action: by which it was asked: where, by whom, in which run.
    """
    return replace(action, content=question.content, type=QUESTION, interpreter=(QUESTION,), env={}, stdin=b"")


def answer_of(question: Question, denial: Denial) -> HumanAnswer:
    """Return the answer that a human gave to a question, or why there is none."""
    told = denial_text(replace(denial, question=True))
    if denial.answer == "respond":
        return HumanAnswer(question.chosen(denial.comment), denial.approver, told=told)
    words = f": {denial.comment}" if denial.comment else ""
    return HumanAnswer("", denial.approver, f"{denial.reason}{words}", told, denial.terminate)
