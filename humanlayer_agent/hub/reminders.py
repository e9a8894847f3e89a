"""The times at which humans are told once more that something waits."""

AT = (0.5, 0.8)
"""Parts of a request's time after which people are reminded, level by level."""

AFTER_MS = 60_000
"""How long after it was shown, or reminded of, at least."""


def level_due(created: int, expires: int, shown: int, now: int) -> int:
    """Return how often a place should have been reminded of by now.

    Args:
        created, expires: of the request. shown: when it was shown there. All in ms.

    Example:
        >>> level_due(0, 600_000, 0, 299_000), level_due(0, 600_000, 0, 300_000), level_due(0, 600_000, 0, 500_000)
        (0, 1, 2)
    """
    moments = (max(created + int(part * (expires - created)), shown + AFTER_MS) for part in AT)
    return sum(moment <= now < expires for moment in moments)
