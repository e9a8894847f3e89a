"""The integrity of the log that a report is made of, as `hla audit verify` says it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from humanlayer_agent.audit.heads import Head
from humanlayer_agent.audit.verify import Verification

Level = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Integrity:
    """What the verifier says: `problem` is "" for a log that is intact, else `kind` says what is wrong (gap, torn,
    tampered). `witnessed` is the newest event of which a head was kept elsewhere (None: there is none). `source` is the
    store or the file, `details` further lines. `last` is the newest event that is intact, `digest` that of all of them
    (`Verification`)."""

    source: str
    count: int
    head: str
    problem: str = ""
    bad_seq: int | None = None
    witnessed: int | None = None
    kind: str = "intact"
    details: tuple[tuple[str, str], ...] = ()
    last: int = -1
    digest: str = ""

    @property
    def level(self) -> Level:
        if self.problem:
            return "bad"
        return "warn" if self.witnessed is None else "good"

    @property
    def exit_code(self) -> int:
        """As `hla audit verify` has it, where no head is required."""
        if self.problem:
            return 1 if self.kind == "tampered" else 5
        return 0

    @property
    def headline(self) -> str:
        """One line."""
        if self.problem:
            where = f" at event {self.bad_seq:,}" if self.bad_seq is not None else ""
            what = {"gap": "Events are missing", "torn": "The last line is torn"}.get(self.kind, "Tampered with")
            return f"{what}{where}: don't rely on what follows"
        if self.witnessed is not None:
            return f"Intact: {self.count:,} events, witnessed up to event {self.witnessed:,}"
        return f"Intact: {self.count:,} events. The end is not witnessed"

    @property
    def meaning(self) -> str:
        """The meaning of that, in a sentence or two."""
        if self.problem:
            return f"{self.problem}. Up to there the events are as they were written; from there on nothing is proven."
        chained = "Every event hashes to what the next one of its chain names."
        if self.witnessed is None:
            return (
                f"{chained} No head of this log that is kept elsewhere was compared, so events cut from its end would "
                "not show."
            )
        later = self.last - self.witnessed
        rest = {0: "", 1: " One event is newer than it."}.get(later, f" {later:,} events are newer than it.")
        return f"{chained} A signed head that was kept elsewhere is that of this log.{rest}"


def integrity(found: Verification, source: str, heads: Sequence[Head] = ()) -> Integrity:
    """Return what the verifier says of a log, in words for readers.

    Args:
        found: of a verification with `heads`.
        source: names the log.
        heads: those that were kept elsewhere.
    """
    details = [("Store", found.store)] if found.store else []
    if found.last_head is not None:
        signers = ", ".join(found.signers)
        details.append(("Last signed head", f"event {found.last_head.seq:,}, heads signed by: {signers}"))
    return Integrity(
        source=source,
        count=found.count,
        head=found.head,
        problem=found.problem[:1].upper() + found.problem[1:],
        kind=found.kind,
        bad_seq=found.bad_seq,
        witnessed=max((head.seq for head in heads), default=None) if found.intact else None,
        details=tuple(details),
        last=found.last,
        digest=found.digest,
    )
