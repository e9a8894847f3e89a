"""The arguments of a call."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library.tables import Operand
from humanlayer_agent.shell.languages.python.values import ANYTHING, NONE, Value

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


@dataclass(slots=True)
class Args:
    """What a call passes. `rest` and `others` are what further arguments may be, where a `*` or `**` hides them."""

    node: ast.AST
    positional: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)
    rest: Value | None = None
    others: Value | None = None
    unseen: bool = False
    """They are those of a call that is not in the source."""

    @classmethod
    def unknown(cls, node: ast.AST) -> "Args":
        """Those that code which is not read here passes."""
        return cls(node, [], {}, ANYTHING, ANYTHING, unseen=True)

    def at(self, position: int, keyword: str = "") -> Value | None:
        """The argument at `position` or named `keyword`; None where it is not given."""
        if 0 <= position < len(self.positional):
            return self.positional[position]
        if keyword in self.named:
            return self.named[keyword]
        hidden = [v for v in (self.rest if position >= 0 else None, self.others if keyword else None) if v is not None]
        return frozenset[object]().union(*hidden) if hidden else None  # type: ignore[return-value]

    def operand(self, operand: Operand) -> Value | None:
        return self.at(operand.position, operand.keyword)

    def given(self, operand: Operand) -> bool | None:
        """Is the argument there, and not None? None: perhaps."""
        value = self.operand(operand)
        if value is None or value == NONE:
            return False
        return None if value >= NONE or (value is not None and self.rest is not None) else True

    def every(self) -> Iterator[Value]:
        """All that is passed."""
        yield from self.positional
        yield from self.named.values()
        if self.rest is not None:
            yield self.rest
        if self.others is not None:
            yield self.others

    def after(self, count: int) -> "Args":
        """Without the first `count` positional arguments."""
        return Args(self.node, self.positional[count:], self.named, self.rest, self.others)

    def before(self, *values: Value) -> "Args":
        """With `values` in front."""
        return Args(self.node, [*values, *self.positional], self.named, self.rest, self.others)

    def without(self, *names: str) -> "Args":
        return Args(
            self.node, self.positional, {k: v for k, v in self.named.items() if k not in names}, self.rest, self.others
        )


Special = Callable[["Engine", Args], Value]
"""What a call of a function that is treated on its own does and gives."""
