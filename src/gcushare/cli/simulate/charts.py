"""The curves of a comparison as pictures: allocated and fragmented share over the pods that arrived.

SVG is text, so it is written here. PNG needs Pillow, an optional extra (``pip install gcushare[pictures]``).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from gcushare.cli.simulate.runs import Run
from gcushare.core.errors import ConfigError

WIDTH, HEIGHT = 960, 420
_LEFT, _TOP, _BOTTOM, _GAP, _LEGEND = 56, 44, 48, 64, 190
_PLOT_WIDTH = (WIDTH - _LEFT - _GAP - _LEGEND) // 2
_PLOT_HEIGHT = HEIGHT - _TOP - _BOTTOM
_TICKS = 5
_INK, _FAINT = "#333333", "#dddddd"
_COLORS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d00", "#666666", "#7b3294", "#1b7837",
    "#000000",
)  # fmt: skip
"""Also distinct with red-green colour blindness (after Okabe and Ito)."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight piece, in pixels from the upper left corner."""

    points: tuple[tuple[float, float], ...]
    color: str
    width: float


@dataclass(frozen=True, slots=True)
class Label:
    """A piece of text; ``anchor`` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    size: int = 12


@dataclass(frozen=True, slots=True)
class Picture:
    """What to draw, independent of the format."""

    lines: tuple[Line, ...]
    labels: tuple[Label, ...]


def draw(runs: Mapping[str, Run]) -> Picture:
    """Lay out one run of each policy: on the left what pods hold, on the right what is free and of no use.

    Raises:
        ConfigError: no pod that arrived asks for cards.
    """
    if not any(sample.arrived for run in runs.values() for sample in run.samples):
        raise ConfigError("svg and png draw how cards fill, and no pod that arrives asks for any: give a larger load")
    allocated = {name: [(s.arrived, s.allocated) for s in run.samples] for name, run in runs.items()}
    fragmented = {name: [(s.arrived, s.fragmented) for s in run.samples] for name, run in runs.items()}
    lines: list[Line] = []
    labels: list[Label] = []
    for number, (title, curves) in enumerate((("allocated", allocated), ("fragmented", fragmented))):
        panel = _Panel(_LEFT + number * (_PLOT_WIDTH + _GAP), curves)
        lines += panel.lines()
        labels += panel.labels(f"{title}, % of all cards")
    right = WIDTH - _LEGEND + 24
    for number, name in enumerate(runs):
        y = _TOP + 8 + 20 * number
        lines.append(Line(((right, y), (right + 18, y)), _color(number), 3))
        labels.append(Label(right + 26, y + 4, name))
    return Picture(tuple(lines), tuple(labels))


@dataclass(frozen=True, slots=True)
class _Panel:
    left: float
    curves: Mapping[str, Sequence[tuple[float, float]]]

    @property
    def most_x(self) -> float:
        return max(x for curve in self.curves.values() for x, _ in curve)

    @property
    def most_y(self) -> float:
        """The top of the axis: the next multiple of 5 % above all curves."""
        top = max(y for curve in self.curves.values() for _, y in curve)
        return max(0.05, -(-top // 0.05) * 0.05)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (
            round(self.left + x / self.most_x * _PLOT_WIDTH, 1),
            round(_TOP + _PLOT_HEIGHT * (1 - y / self.most_y), 1),
        )

    def lines(self) -> Iterator[Line]:
        for tick in range(_TICKS + 1):
            level = self.most_y * tick / _TICKS
            yield Line((self._at(0, level), self._at(self.most_x, level)), _FAINT, 1)
        for number, curve in enumerate(self.curves.values()):
            yield Line(tuple(self._at(x, y) for x, y in curve), _color(number), 2)

    def labels(self, title: str) -> Iterator[Label]:
        yield Label(self.left, _TOP - 18, title, size=14)
        for tick in range(_TICKS + 1):
            level, asked = self.most_y * tick / _TICKS, self.most_x * tick / _TICKS
            yield Label(self.left - 8, self._at(0, level)[1] + 4, f"{100 * level:.3g}", "end")
            yield Label(self._at(asked, 0)[0], HEIGHT - _BOTTOM + 18, f"{100 * asked:.0f}", "middle")
        yield Label(self.left + _PLOT_WIDTH / 2, HEIGHT - 10, "asked for so far, % of all cards", "middle")


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]


def render_svg(picture: Picture) -> str:
    """The picture as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" role="img"><title>Policies compared</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for line in picture.lines:
        points = " ".join(f"{x:g},{y:g}" for x, y in line.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{line.color}" stroke-width="{line.width:g}"/>')
    for label in picture.labels:
        parts.append(
            f'<text x="{label.x:g}" y="{label.y:g}" font-size="{label.size}" text-anchor="{label.anchor}" '
            f'fill="{_INK}">{escape(label.text)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def write_png(picture: Picture, path: Path) -> None:
    """Draw the picture into a PNG file of twice the size, for sharp text.

    Raises:
        ConfigError: Pillow is not installed.
        OSError: the file cannot be written.
    """
    try:
        image_module: Any = importlib.import_module("PIL.Image")
        draw_module: Any = importlib.import_module("PIL.ImageDraw")
        font_module: Any = importlib.import_module("PIL.ImageFont")
    except ImportError as error:
        raise ConfigError(
            "png needs Pillow, which is not installed here: pip install 'gcushare[pictures]', or use --svg"
        ) from error
    scale = 2
    image = image_module.new("RGB", (WIDTH * scale, HEIGHT * scale), "white")
    pen = draw_module.Draw(image)
    for line in picture.lines:
        points = [(x * scale, y * scale) for x, y in line.points]
        pen.line(points, fill=line.color, width=round(line.width * scale), joint="curve")
    anchors = {"start": "ls", "middle": "ms", "end": "rs"}
    for label in picture.labels:
        font = font_module.load_default(size=label.size * scale)
        pen.text((label.x * scale, label.y * scale), label.text, fill=_INK, font=font, anchor=anchors[label.anchor])
    image.save(path, format="PNG")
