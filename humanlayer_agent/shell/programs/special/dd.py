"""dd: key=value operands (GNU coreutils 9.1)."""

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs.spec import Spec

_KINDS = {"if": "read", "of": "write"}
_DATA = frozenset(str.split("bs cbs conv count ibs iflag iseek obs oflag oseek seek skip status"))


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the file that is read and the one that is written."""
    for each in fields:
        if each.text is None:
            name = each.prefix.partition("=")[0] if "=" in each.prefix else None
            if name in _KINDS:
                run.path(_KINDS[name], Field(each.word, each.start, each.end), origin=f"dd {name}=")
            elif name not in _DATA:
                run.doubt(each.word.raw)
            continue
        name, equals, _ = each.text.partition("=")
        run.command.flags.add(name)
        if name in _KINDS and equals:
            run.path(_KINDS[name], each.tail(len(name) + 1), origin=f"dd {name}=")
        elif name not in _DATA and each.text not in ("--help", "--version"):
            run.doubt(each.text)
