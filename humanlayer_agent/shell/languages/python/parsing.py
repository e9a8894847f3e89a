"""From text to tree."""

import ast
import warnings


def parse(text: str) -> ast.Module:
    """The tree of `text`, without a word on standard error about its style.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ast.parse does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)
