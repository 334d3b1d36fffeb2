"""The curves of a comparison as pictures: allocated and fragmented share over the pods that arrived.

SVG is text, so it is written here. PNG needs Pillow, an optional extra (``pip install gcushare[pictures]``).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Picture:
    """What to draw, independent of the format, in pixels from the upper left corner."""

    lines: list[tuple[Sequence[tuple[float, float]], str, int]] = field(default_factory=list)
    """Points, color and width of each line."""
    labels: list[tuple[float, float, str, str, int]] = field(default_factory=list)
    """Position, text, anchor (start, middle or end) and size of each piece of text."""

    def add_line(self, points: Sequence[tuple[float, float]], color: str, width: int) -> None:
        self.lines.append((points, color, width))

    def add_label(self, x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> None:
        self.labels.append((x, y, text, anchor, size))


def draw(runs: Mapping[str, Run]) -> Picture:
    """Lay out one run of each policy: on the left what pods hold, on the right what is free and of no use.

    Raises:
        ConfigError: no pod that arrived asks for cards.
    """
    if not any(sample.arrived for run in runs.values() for sample in run.samples):
        raise ConfigError("svg and png draw how cards fill, and no pod that arrives asks for any: give a larger load")
    picture = Picture()
    allocated = [[(s.arrived, s.allocated) for s in run.samples] for run in runs.values()]
    fragmented = [[(s.arrived, s.fragmented) for s in run.samples] for run in runs.values()]
    _draw_panel(picture, _LEFT, "allocated, % of all cards", allocated)
    _draw_panel(picture, _LEFT + _PLOT_WIDTH + _GAP, "fragmented, % of all cards", fragmented)
    right = WIDTH - _LEGEND + 24
    for number, name in enumerate(runs):
        y = _TOP + 8 + 20 * number
        picture.add_line(((right, y), (right + 18, y)), _color(number), 3)
        picture.add_label(right + 26, y + 4, name)
    return picture


def _draw_panel(picture: Picture, left: float, title: str, curves: Sequence[Sequence[tuple[float, float]]]) -> None:
    most_x = max(x for curve in curves for x, _ in curve)
    # The top of the axis is the next multiple of 5 % above all curves.
    most_y = max(0.05, -(-max(y for curve in curves for _, y in curve) // 0.05) * 0.05)

    def at(x: float, y: float) -> tuple[float, float]:
        return round(left + x / most_x * _PLOT_WIDTH, 1), round(_TOP + _PLOT_HEIGHT * (1 - y / most_y), 1)

    picture.add_label(left, _TOP - 18, title, size=14)
    for tick in range(_TICKS + 1):
        level, asked = most_y * tick / _TICKS, most_x * tick / _TICKS
        picture.add_line((at(0, level), at(most_x, level)), _FAINT, 1)
        picture.add_label(left - 8, at(0, level)[1] + 4, f"{100 * level:.3g}", "end")
        picture.add_label(at(asked, 0)[0], HEIGHT - _BOTTOM + 18, f"{100 * asked:.0f}", "middle")
    for number, curve in enumerate(curves):
        picture.add_line([at(x, y) for x, y in curve], _color(number), 2)
    picture.add_label(left + _PLOT_WIDTH / 2, HEIGHT - 10, "asked for so far, % of all cards", "middle")


def _color(number: int) -> str:
    return _COLORS[number % len(_COLORS)]


def render_svg(picture: Picture) -> str:
    """The picture as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" role="img"><title>Policies compared</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for points, color, width in picture.lines:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>')
    for x, y, text, anchor, size in picture.labels:
        parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{_INK}">{escape(text)}</text>'
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
    for points, color, width in picture.lines:
        pen.line([(x * scale, y * scale) for x, y in points], fill=color, width=width * scale, joint="curve")
    anchors = {"start": "ls", "middle": "ms", "end": "rs"}
    for x, y, text, anchor, size in picture.labels:
        font = font_module.load_default(size=size * scale)
        pen.text((x * scale, y * scale), text, fill=_INK, font=font, anchor=anchors[anchor])
    image.save(path, format="PNG")
