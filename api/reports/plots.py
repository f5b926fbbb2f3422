"""How are numbers drawn without a script? As lines, dots and columns of an SVG, which prints too."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from api.reports.axes import Axis

WIDTH, HEIGHT = 440, 290
LEFT, RIGHT, TOP, BOTTOM = 62.0, WIDTH - 12.0, 26.0, HEIGHT - 42.0
"""Pixels of the frame: the text of the axes stands outside."""
COLOURS = ("forward", "backward", "weight", "input", "all_reduce", "transient", "p2p", "update")
"""Names of colours in the style sheet that differ in both schemes, in the order in which they are taken."""

Point = tuple[float, float]
Span = tuple[float, float, float]
"""A row or a column, and where in it something begins and ends."""


@dataclass
class Plot:
    """A picture that is being drawn."""

    frame: ClassVar[dict[str, float]] = {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "bottom": BOTTOM,
    }  # fmt: skip
    """Its size, as `plots.html` wants it."""

    label: str
    """What it shows, for who does not see it."""
    x: Axis
    y: Axis
    marks: list[dict[str, Any]] = field(default_factory=list)

    def line(self, points: Sequence[Point], *, colour: str, dashed: bool = False) -> None:
        """Join points in their order."""
        places = " ".join(f"{self.x.place(x)},{self.y.place(y)}" for x, y in points)
        self.marks.append({"kind": "line", "places": places, "colour": colour, "dashed": dashed})

    def dot(self, point: Point, *, colour: str, words: str, shape: str = "full") -> None:
        """Mark a point; `words` are told where the mouse is. `shape` is full, hollow or cross."""
        x, y = self.x.place(point[0]), self.y.place(point[1])
        self.marks.append({"kind": "dot", "x": x, "y": y, "colour": colour, "words": words, "shape": shape})

    def columns(self, columns: Sequence[Span], *, width: float, colour: str) -> None:
        """Fill a column at each x from one value to another, all in one colour."""
        path = []
        for x, low, high in columns:
            top, bottom = self.y.place(high), self.y.place(low)
            if bottom - top > 0.05:
                path.append(f"M{self.x.place(x) - width / 2:.1f} {bottom}V{top}h{width:.1f}V{bottom}z")
        if path:
            self.marks.append({"kind": "area", "path": "".join(path), "colour": colour})

    def rows(self, rows: Sequence[Span], *, room: tuple[float, float], colour: str) -> None:
        """Fill a bar in each row from one value to another; `room` says between which parts of its height."""
        height = abs(self.y.end - self.y.start) / (self.y.high - self.y.low)
        thick = f"v{(room[1] - room[0]) * height:.1f}"
        path = []
        for row, low, high in rows:
            left, right = self.x.place(low), self.x.place(high)
            top = self.y.place(row) + (room[0] - 0.5) * height
            path.append(f"M{left} {top:.1f}H{max(right, left + 0.1):.1f}{thick}H{left}z")
        if path:
            self.marks.append({"kind": "area", "path": "".join(path), "colour": colour})

    def limit(self, value: float, *, text: str) -> None:
        """Draw a line across that is not to be passed."""
        self.marks.append({"kind": "limit", "y": self.y.place(value), "text": text})
