"""Tools of PHP projects: their options are harmless but for those that name code, files to write, or settings."""

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs.spec import Spec

_PLAIN = frozenset(
    str.split(
        """
        --level --no-progress --memory-limit --no-cache --no-interaction --error-format --dry-run --diff --test -v -vv
        -vvv --verbose --quiet -q --ansi --no-ansi --standard --report -p -n -s --colors --extensions --severity
        --error-severity --warning-severity --show-info --stats --threads --stop-on-violation --format --rules
        --allow-risky --path-mode --using-cache --dirty --parallel --fix --clear-cache --debug --xdebug --steps --filter
        --group --fail-fast --strict --tags --suite --profile --no-diffs -l -l5 -l9 --ignore
        --show-progress --no-diff --php-version --taint-analysis --find-dead-code --alter --min-msi
        """
    )
)
_FILES = frozenset({"--configuration", "-c", "--config", "--config-file", "--autoload-file", "-a", "--bootstrap"})


def tool(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Read the words one by one: what is not listed is in doubt."""
    for n, word in enumerate(fields, 1):
        text, origin = word.text, f"{run.command.program} operand {n}"
        name, equals, _ = (text or "").partition("=")
        before = (fields[n - 2].text or "") if n > 1 else ""
        if text is None:
            run.doubt(word.word.raw)
        elif text in ("--version", "-V", "-h", "--help"):
            run.command.flags.add("version")
        elif before in _FILES or (equals and name in _FILES):
            run.script(word.tail(len(name) + 1) if equals else word, origin, language="")
        elif text.startswith("-"):
            if (name not in _PLAIN and name not in _FILES) or "/" in text:
                run.doubt(word.word.raw)
        else:
            run.command.operands.append(text)
            if n > 1:
                run.path("write", word, origin=origin)
