"""What a form made of a command: line ends, and characters that the human did not mean."""

import unicodedata

from humanlayer_agent.safe_text import characters

_TYPOGRAPHIC = frozenset("“”„‟‘’‚‛«»‹›′″–—―…")
"""What phones and desktops put in for quotes, dashes and three dots."""
_NAMED = 3


def normal(text: str) -> str:
    """A form's text with the line ends of a command."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def strange(edited: str, original: str) -> str:
    """What is in `edited` that the form, and not the human, has probably put there; "" for nothing.

    Curly quotes, long dashes, and characters that can't be seen or would act on a screen, none of which `original` had.
    """
    odd = {char for char, (_, is_odd) in zip(edited, characters(edited), strict=True) if is_odd}
    found = sorted((odd | (_TYPOGRAPHIC & set(edited))) - set(original))
    if not found:
        return ""
    named = ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, 'unnamed')}" for char in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"the command did not have {named}{more}: your keyboard may have put that in. Type it plainly."
