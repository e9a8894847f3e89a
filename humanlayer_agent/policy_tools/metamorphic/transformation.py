"""A transformation: it writes a command line in another way that does the same."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from humanlayer_agent.policy_tools.metamorphic.line import Line

Apply = Callable[[Line, random.Random], str | None]


@dataclass(frozen=True, slots=True)
class Transformation:
    """`apply` gives the other spelling, or None where the transformation has nothing to say about the line."""

    name: str
    apply: Apply
