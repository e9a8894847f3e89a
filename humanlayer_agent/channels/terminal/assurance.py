"""How far an answer at our own terminal is trusted, and what lifts it where other processes can type there too."""

from collections.abc import Callable

from humanlayer_agent.approvals.authority import ApprovalRule
from humanlayer_agent.errors import ConfigError, RunTerminated
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.keys.unlock import PROOF_S, TRIES, has_proved, prove
from humanlayer_agent.processes.tty import write

NO_KEY = "a yes needs a signing key: run hla init, then start again"


class Assurance:
    """The assurance of whoever answers one request at our terminal.

    It is `terminal`, the highest, where only a human can type there. Where a program holds the terminal that takes
    orders, an agent's command could have given the answer: it is worth no more than any process of this user (`os`),
    until the passphrase of the signing key was typed.

    Args:
        rule: of the request; None where nobody counts votes.
        typist: the program that other processes can have type here; "" where there is none.
        key: gives the user's signing key, locked and new each time; None where none may sign for this run.
    """

    def __init__(self, rule: ApprovalRule | None, typist: str, key: Callable[[], Signer | None]) -> None:
        self._rule = rule
        self._typist = typist
        self._key = key
        self._wrong = 0

    @property
    def value(self) -> str:
        """One of `authority.ASSURANCES`, as it is now."""
        return "os" if self._typist and not self._is_proved else "terminal"

    @property
    def suffices(self) -> bool:
        """Tell whether an answer counts now."""
        return self._rule is None or self._rule.takes(self.value)

    def warning(self) -> tuple[str, ...]:
        """What the human is told about it: a line where other processes can type, else nothing."""
        if not self._typist:
            return ()
        key = self._signer()
        if self._is_proved:
            then = f"a yes counts, because you typed your passphrase within {PROOF_S // 60} minutes"
        elif self.suffices:
            then = "your answer counts as that of any process of yours (os)"
        else:
            then = key if isinstance(key, str) else f"a yes takes your passphrase, once for {PROOF_S // 60} minutes"
        return (f"an agent's command can type here too, through {self._typist}; {then}",)

    def lift(self, fd: int, purpose: str, over: Callable[[], bool]) -> str:
        """Have the human type the passphrase; returns why the answer still does not count, "" where it does.

        Args:
            fd: the controlling terminal.
            purpose: what it is typed for, in a line of its own.
            over: nobody waits for it any more.

        Raises:
            NoTerminal: the terminal can't be silenced.
            RunTerminated: Ctrl-C.
        """
        key = self._signer()
        if isinstance(key, str):
            return key
        write(fd, purpose)
        try:
            return "" if prove(fd, key, over, self._note_wrong) else "your passphrase was not typed"
        except ConfigError as error:
            return str(error)
        except KeyboardInterrupt as error:
            raise RunTerminated("stopped by Ctrl-C at the passphrase") from error

    @property
    def is_refuted(self) -> bool:
        """True once so many wrong passphrases were typed that it is not asked for again."""
        return self._wrong >= TRIES

    def _note_wrong(self) -> None:
        self._wrong += 1

    @property
    def _is_proved(self) -> bool:
        key = self._signer()
        return not isinstance(key, str) and has_proved(key)

    def _signer(self) -> Signer | str:
        """The key, locked, or why there is none that counts."""
        try:
            key = self._key()
            if key is not None:
                _ = key.fingerprint  # one that can't be used is told of before anything is typed
        except ConfigError as error:
            return str(error)
        return key or NO_KEY
