"""mini's interactive agents print what models and commands say as it is. On a terminal at which a human decides, that
must not act: an output could clear the screen, and draw what looks like an answer."""

from typing import Any

from rich.console import Console

from humanlayer_agent.safe_text import visible


class SafeConsole(Console):
    """A console that spells out what could act on the screen, or can't be seen on it (see `channels.text.visible`)."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Rich's own, of safe text."""
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)


def make_safe(module: Any) -> Console:
    """Give `module` (that of mini's interactive agent) such a console, and return it."""
    if not isinstance(module.console, SafeConsole):
        module.console = SafeConsole(highlight=False)
    console: Console = module.console
    return console


def announce(console: Console, mode: str) -> None:
    """Say on the console that commands are supervised, and what mini's own mode adds to that."""
    if mode == "confirm":
        note = (
            "mini's mode is confirm: it asks about every command first, and there Enter confirms; what is confirmed is "
            "judged all the same. In mode yolo (-y, or /y) only supervision asks, about what the policy does not allow"
        )
    else:
        note = f"mini's mode is {mode}: supervision asks, about what the policy does not allow"
    console.print(f"[bold]Supervised[/bold]: {note}.")
