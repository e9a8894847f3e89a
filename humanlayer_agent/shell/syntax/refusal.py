"""The refusal of a text: inside the front end an exception, outside of it the status of a `Parse`."""


class Unparsed(Exception):
    """Text that the shell front end refuses to read, with the reason.

    Args:
        reason: a short, stable phrase that names the construct ("unterminated '", "coproc", ...).
        position: offset in code points of the source where reading stopped, or None.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
