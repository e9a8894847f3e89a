"""The working directory: cd, pushd, popd."""

import itertools

from humanlayer_agent.shell.expansion import wildcard_names
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import Ends
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import MAX_CHOICES, Glob, State, join
from humanlayer_agent.shell.paths import dedupe, logical


def cd(run: Run, fields: list[Field]) -> Ends:
    """`cd`: on success the shell is there, on failure where it was. It does not fail where the folder is seen."""
    options, operands = _options(fields)
    moved = run.state.copy()
    if not operands:
        moved.cwd = _home(run.state)
        return moved, _failed(run, moved)
    moved.cwd = destination(operands[0], run.state) if _plain(operands, options, run.state) else None
    if moved.cwd is None:
        run.doubt(operands[0].word.raw)
        return moved, _failed(run, moved)
    asks = run.walk.goes_on and len(moved.cwd) == 1 and not any(map(_turns_back, operands[0].texts))
    failed = _failed(run, moved)
    if asks and failed is run.state and wildcard_names.is_folder(run.walk, moved.cwd[0], run.state, run.context):
        failed = None
    return moved, failed


def _failed(run: Run, moved: State) -> State | None:
    """The state after `cd` failed. Where PWD can't be set it fails, and has gone there all the same."""
    return join(moved, run.state) if run.walk.may_be_read_only else run.state


def _turns_back(text: str) -> bool:
    """Tell whether a path leads through a folder that it leaves again: `x/../y` needs x as well."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return ".." in itertools.dropwhile(lambda part: part == "..", parts)


def _options(fields: list[Field]) -> tuple[str, list[Field]]:
    """The letters of leading options, and what follows them."""
    letters = ""
    for n, each in enumerate(fields):
        if each.text == "--":
            return letters, fields[n + 1 :]
        if each.text is None or not each.text.startswith("-") or each.text == "-":
            return letters, fields[n:]
        letters += each.text[1:]
    return letters, []


def _plain(operands: list[Field], options: str, state: State) -> bool:
    """True where `cd` goes to the one directory it names: no `-P` (which leaves the name behind), no `-`, no CDPATH."""
    if len(operands) > 1 or (options and set(options) - {"L"}):
        return False
    absolute = True
    for text in operands[0].texts:
        if text.startswith("-"):
            return False
        absolute = absolute and text.startswith("/")
    if absolute:
        return True
    value = state.lookup("CDPATH")
    return value in ((), ("",)) or (value is None and state.untouched("CDPATH"))


def _home(state: State) -> tuple[str, ...] | None:
    home = state.lookup("HOME")
    if not home or any(isinstance(h, Glob) or not h.startswith("/") for h in home):
        return None
    return dedupe(logical(h, "/") for h in home)


def destination(target: Field, state: State) -> tuple[str, ...] | None:
    """The directories that `target` names, or None where that is not known."""
    texts = target.texts
    if not texts or target.many:
        return None
    if len(texts) == 1 and state.cwd is not None and len(state.cwd) == 1:
        return (logical(texts[0], state.cwd[0]),)
    if all(t.startswith("/") for t in texts):
        return dedupe(logical(t, "/") for t in texts)
    if state.cwd is None:
        return None
    found = dedupe(logical(t, c) for t in texts for c in state.cwd)
    return found if len(found) <= MAX_CHOICES else None


def pushd(run: Run, fields: list[Field]) -> Ends:
    """`pushd dir` goes there; `popd`, `pushd +1` and the like go where only the shell knows."""
    moved = run.state.copy()
    usable = (
        len(fields) == 1 and run.command.program == "pushd" and not any(t[:1] in ("+", "-") for t in fields[0].texts)
    )
    moved.cwd = destination(fields[0], run.state) if usable and _plain(fields, "", run.state) else None
    if moved.cwd is None and run.command.program == "pushd":
        run.doubt(run.command.text)
    return moved, _failed(run, moved)
