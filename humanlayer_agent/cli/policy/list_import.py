"""`hla policy import`: lists of other tools as a policy of ours, with what could not be carried."""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from humanlayer_agent.cli.shared.file_replacement import write_new
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language import examples, loader
from humanlayer_agent.policy_tools.rule_import import (
    MOST_BYTES,
    Carried,
    Imported,
    Line,
    List,
    claude_settings,
    codex_rules,
    dippy_config,
    gemini_policies,
    imported,
    summary,
)
from humanlayer_agent.policy_tools.rule_import.command_patterns import LOOSER
from humanlayer_agent.safe_text import one_line

Tool = Literal["claude-code", "codex", "gemini-cli", "dippy"]
READERS: Mapping[Tool, Callable[[str, str], List]] = {
    "claude-code": claude_settings.read,
    "codex": codex_rules.read,
    "gemini-cli": gemini_policies.read,
    "dippy": dippy_config.read,
}


def run_import(tool: Tool, file: str, output: Path | None) -> int:
    """Read a list, and write it as a policy.

    Args:
        tool: whose list it is.
        file: its path; "-" is standard input.
        output: where the policy is written; None: printed, and what is to be said goes to standard error.

    Returns:
        The exit code: 0 every line was carried, 1 some were not, or are looser here.
    """
    if output is not None:
        human_only("policy import", "writes a policy")
    made = tried(READERS[tool](_text(file), file), "imported")
    if output is None:
        sys.stdout.write(made.text)
        sys.stdout.flush()
    else:
        try:
            write_new(output, made.text.encode(), 0o600)
        except FileExistsError:
            raise ConfigError(f"{output} is there already: choose another name, or remove it") from None
        except OSError as error:
            raise ConfigError(f"{output}: can't be written: {error.strerror}") from error
    print_report(made, output)
    return 1 if any(not each.rules or each.line.is_looser for each in made.lines) else 0


def tried(found: List, name: str) -> Imported:
    """Return the list as a policy whose tests hold; what they show to be stricter here is noted at its line.

    Raises:
        ConfigError: it is too long for a policy.
    """
    try:
        first = imported(found, name)
        kept: dict[str, dict[str, list[str]]] = {rule: {"match": [], "not_match": []} for rule in first.tests}
        found_out: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "imported.yaml"
            path.write_text(first.text, encoding="utf-8")
            policy = loader.load(path, tested=False)
            director = examples.director_for(policy)
            for example in examples.examples(policy):
                if (rule := example.rule.id) not in kept:
                    continue  # one of what it extends
                result = examples.judge(director, example)
                if result.passed:
                    kept[rule][example.kind].append(example.command)
                if example.kind == "match" and (said := _differs(example, result)):
                    found_out.setdefault(rule, said)
            lines = [_noted(each, found_out) for each in first.lines]
            made = imported(replace(found, lines=lines), name, tests=kept)
            path.write_text(made.text, encoding="utf-8")
            loader.load(path)
    except PolicyError as error:
        raise ConfigError(f"it can't be said by one policy: {error}") from error
    return made


def _differs(example: examples.Example, result: examples.Result) -> str:
    """Say how an example of what a line is about is judged in another way here; "" where it is not."""
    verdict, wanted = result.decision.verdict, Verdict[example.rule.decision.upper()]
    if wanted is Verdict.ALLOW and verdict is not wanted:
        return f"stricter here: `{example.command}` is not allowed: {result.decision.reason}"
    if verdict < wanted:
        return f"{LOOSER}`{example.command}` is judged {verdict}"
    return ""


def _noted(carried: Carried, found_out: Mapping[str, str]) -> Line:
    line = carried.line
    note = next((found_out[rule] for rule in carried.rules if rule in found_out), None)
    return line if note is None else replace(line, notes=(*line.notes, note))


def print_report(made: Imported, output: Path | None) -> None:
    """Say what became of each line."""
    stream = sys.stdout if output is not None else sys.stderr
    for each in made.lines:
        print(one_line(summary(each)), file=stream)
    for note in made.notes:
        print(one_line(note), file=stream)
    carried = sum(bool(each.rules) for each in made.lines)
    place = "" if output is None else f", to {one_line(str(output))}, which is not in force"
    print(f"{carried} of {len(made.lines)} lines carried{place}", file=stream)


def _text(file: str) -> str:
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as opened:
                raw = opened.read(MOST_BYTES + 1) or b""
        if len(raw) > MOST_BYTES:
            raise ConfigError(f"{file}: too large: at most {MOST_BYTES} bytes are read")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: byte {error.start} is not UTF-8") from error
