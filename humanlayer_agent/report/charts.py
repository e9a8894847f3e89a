"""Charts as coordinates: where every mark stands and what it says. `templates/charts.html.j2` draws them as SVG.

Each has a title and a description, which are in the picture for those who can't see it, and its values as a table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

WIDTH = 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 12, 26
_LABEL = 46  # units that a label on the axis needs


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one kind: its name, the class that colours it, a value for each label."""

    name: str
    look: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle. `told` is what it says to those who point at it, `corner` the radius of its corners."""

    kind: ClassVar[str] = "box"
    x: float
    y: float
    width: float
    height: float
    look: str
    told: str
    corner: int = 0


@dataclass(frozen=True, slots=True)
class Label:
    """Words. `anchor` is where they stand from x: after it, or with their middle or end there."""

    kind: ClassVar[str] = "label"
    x: float
    y: float
    words: str
    anchor: str = "start"
    look: str = "label"
    told: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a line."""

    kind: ClassVar[str] = "dot"
    x: float
    y: float
    radius: float
    told: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through all points, or the area below it. `d` is as SVG has it in a path."""

    kind: ClassVar[str] = "curve"
    d: str
    look: str


@dataclass(frozen=True, slots=True)
class GridLine:
    """A horizontal line, with the value that it stands for."""

    x1: float
    x2: float
    y: float
    look: str
    label: Label


@dataclass(frozen=True, slots=True)
class Table:
    """A chart's values as a table: titles of the columns, and rows of a name and its values."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str | int]]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `marks` are drawn in this order; `grid` and `axis` say nothing that they don't."""

    title: str
    about: str
    height: int
    marks: Sequence[Box | Label | Dot | Curve]
    grid: Sequence[GridLine] = ()
    axis: Sequence[Label] = ()
    legend: Sequence[Series] = ()
    table: Table | None = None
    width: int = WIDTH


def columns(
    title: str, about: str, labels: Sequence[str], series: Sequence[Series], table: Table | None = None
) -> Chart:
    """Return stacked columns, one a label."""
    height = 200
    totals = [sum(each.values[n] for each in series) for n in range(len(labels))]
    step, top = _scale(max(totals, default=0))
    floor, span = height - _BOTTOM, height - _BOTTOM - _TOP
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    width = min(slot * 0.72, 36)
    marks: list[Box] = []
    for n, label in enumerate(labels):
        x, y = _LEFT + slot * n + (slot - width) / 2, float(floor)
        for each in series:
            size = each.values[n] / top * span
            if size <= 0:
                continue
            y -= size
            told = f"{label}: {each.name} {_number(each.values[n])}"
            marks.append(Box(x, y, width, max(size, 0.8), f"mark {each.look}", told))
    return Chart(title, about, height, marks, _grid(step, top, floor, span), _axis(labels, slot, floor), series, table)


def line(
    title: str,
    about: str,
    labels: Sequence[str],
    values: Sequence[float | None],
    table: Table | None = None,
    *,
    unit: str = "",
) -> Chart:
    """Return a line over time; where there is no value there is a gap.

    Args:
        unit: stands behind each value where it is told.
    """
    height = 200
    known = [value for value in values if value is not None]
    step, top = _scale(max(known, default=0))
    floor, span = height - _BOTTOM, height - _BOTTOM - _TOP
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    points = [
        (label, _LEFT + slot * (n + 0.5), floor - value / top * span, value)
        for n, (label, value) in enumerate(zip(labels, values, strict=True))
        if value is not None
    ]
    marks: list[Curve | Dot] = []
    if len(points) > 1:
        path = " ".join(f"{'M' if n == 0 else 'L'}{x:.1f} {y:.1f}" for n, (_, x, y, _) in enumerate(points))
        area = f"{path} L{points[-1][1]:.1f} {floor} L{points[0][1]:.1f} {floor} Z"
        marks += [Curve(area, "area"), Curve(path, "line")]
    radius = 2.6 if len(points) < 60 else 1.6
    marks += [Dot(x, y, radius, f"{label}: {_number(value)}{unit}") for label, x, y, value in points]
    grid = _grid(step, top, floor, span, unit)
    return Chart(title, about, height, marks, grid, _axis(labels, slot, floor), table=table)


def bars(title: str, about: str, labels: Sequence[str], series: Sequence[Series], table: Table | None = None) -> Chart:
    """Return stacked bars, one a label, the label before and the total behind each."""
    row, left = 24, 176
    totals = [sum(each.values[n] for each in series) for n in range(len(labels))]
    most = max(totals, default=0) or 1
    marks: list[Box | Label] = []
    for n, label in enumerate(labels):
        y, x = 4 + row * n, float(left)
        short = label if len(label) <= 25 else f"{label[:24]}…"
        marks.append(Label(left - 8, y + 15, short, "end", "label strong", label))
        for each in series:
            size = each.values[n] / most * (WIDTH - left - 48)
            if size <= 0:
                continue
            told = f"{label}: {each.name} {_number(each.values[n])}"
            marks.append(Box(x, y + 3, max(size, 1.0), row - 8, f"mark {each.look}", told))
            x += size
        marks.append(Label(x + 6, y + 15, _number(totals[n])))
    return Chart(title, about, row * len(labels) + 8, marks, legend=series, table=table)


def heat(
    title: str,
    about: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[int]],
    table: Table | None = None,
) -> Chart:
    """Return a square for each row and column, darker where there is more."""
    left, top, height_of = 40, 18, 20
    slot = (WIDTH - left - _RIGHT) / len(columns)
    most = max((value for row in values for value in row), default=0) or 1
    marks: list[Box | Label] = [
        Label(left + slot * m + slot / 2, 12, name, "middle") for m, name in enumerate(columns) if m % 3 == 0
    ]
    for n, name in enumerate(rows):
        y = top + height_of * n
        marks.append(Label(left - 8, y + 14, name, "end"))
        for m, column in enumerate(columns):
            value = values[n][m]
            level = 0 if not value else 1 + min(4, int(math.sqrt(value / most) * 4.999))
            told = f"{name} {column}:00: {value}"
            x = left + slot * m + 1
            marks.append(Box(x, y + 1, slot - 2, height_of - 2, f"heat{level}", told, corner=2))
    return Chart(title, about, top + height_of * len(rows) + 4, marks, table=table)


def _scale(most: float) -> tuple[float, float]:
    """The step between lines of a grid, and its end: about four lines, at round numbers."""
    rough = most / 4
    if rough <= 0:  # also where `most` is the smallest number there is
        return 1, 1
    power = 10 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= rough)
    step = max(step, 1.0) if most >= 4 else step
    return step, math.ceil(most / step - 1e-9) * step


def _grid(step: float, top: float, floor: int, span: int, unit: str = "") -> list[GridLine]:
    lines: list[GridLine] = []
    for n in range(round(top / step) + 1):
        y = floor - n * step / top * span
        label = Label(_LEFT - 6, y + 4, f"{_number(n * step)}{unit}", "end")
        lines.append(GridLine(_LEFT, WIDTH - _RIGHT, y, "grid" if n else "axis", label))
    return lines


def _axis(labels: Sequence[str], slot: float, floor: int) -> list[Label]:
    needed = _LABEL if any(len(label) > 2 for label in labels) else 16
    every = max(1, math.ceil(needed / slot))
    return [
        Label(_LEFT + slot * (n + 0.5), floor + 16, label, "middle") for n, label in enumerate(labels) if n % every == 0
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}".rstrip("0")
