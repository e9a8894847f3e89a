"""The command line: `humanlayer-agent`, short `hla`.

`check`, `parse`, `hook` and `exec --permit` answer without loading more than they need; everything else is a typer
application (`app`).
"""

import gc
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

_LIGHT = {name: f"humanlayer_agent.cli.{name}" for name in ("check", "parse", "hook")}
"""Commands with a `main(argv) -> int` of their own: they are called once a command by hooks and by benchmarks."""
_LOOK_FOR_GARBAGE = (200_000, 20, 20)
"""After how many new objects. With Python's own figures, a seventh of a command's start goes into looking through what
was just imported."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own). Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:2] == ["exec", "--permit"]:
        return _light("humanlayer_agent.hooks.permit_use", arguments[1:], last=argv is None)
    if arguments and arguments[0] in _LIGHT:
        return _light(_LIGHT[arguments[0]], arguments[1:], last=argv is None)
    if argv is None:  # the process is ours
        gc.set_threshold(*_LOOK_FOR_GARBAGE)
    from humanlayer_agent.cli.app import run_app

    return _guarded(lambda: run_app(arguments))


def _light(module: str, arguments: list[str], *, last: bool) -> int:
    """Run `main` of `module`. One command leaves next to no garbage, so none is looked for meanwhile.

    Args:
        last: the process ends after this: what is left then is not looked through either.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _guarded(lambda: _main_of(module)(arguments))
    finally:
        if last:
            gc.freeze()
        elif collects:
            gc.enable()


def _main_of(module: str) -> Callable[[list[str]], int]:
    main: Callable[[list[str]], int] = import_module(module).main
    return main


def _guarded(command: Callable[[], int]) -> int:
    """Configuration errors are exit code 2 with their message; Ctrl-C and a closed pipe end quietly."""
    from humanlayer_agent.errors import ConfigError, HumanlayerError

    try:
        return command()
    except ConfigError as error:
        print(f"humanlayer-agent: {error}", file=sys.stderr)
        return 2
    except HumanlayerError as error:
        print(f"humanlayer-agent: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # else the interpreter complains once more while it closes stdout
        return 141
