"""The pictures of a digest, drawn by matplotlib: the waterfall, and GPU Net over the last weeks. PNG, the same bytes each time.

A mail is read on a phone as well, where a picture is shrunk to half its size: letters are large, labels stand beside the bars.
The background is the picture's own, so that dark clients show it as it is.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from warehouse.digest.figures import Net
from warehouse.digest.page import Bar
from warehouse.digest.words import hours
from warehouse.first_screen import NO_TIME

#: a mail's column is 600 pixels wide; twice as many for sharp screens
WIDTH_PIXELS, SCALE = 600, 2
_DPI = 100 * SCALE
_COLOURS_KEPT = 64

_PAPER, _INK, _FAINT, _LINE = "#f3f5f8", "#1c2733", "#5a6776", "#c9d0d9"
_GOOD, _NEUTRAL = "#17806d", "#a9b4c0"
_COLOURS = {"whole": "#51647b", "ghost": "#d4622a", "productive": _GOOD, "other": _NEUTRAL}
_LETTERS, _SMALL = 12.5, 11
_TEXT: dict[str, Any] = {"va": "center", "color": _INK, "parse_math": False}
_ROW_PIXELS, _MONEY_PIXELS = 46, 17
#: characters that fit beside the bars on one line
_LONG_LABEL = 15
#: where the bars begin and end, and where figures end, as shares of the width
_BARS_FROM, _BARS_TO, _FIGURES_TO = 0.29, 0.77, 0.985
#: width of a letter of the figures, with a little room, as a share of the width
_CHARACTER = 0.0165


def draw_waterfall(bars: Sequence[Bar]) -> bytes:
    """From the whole to what was productive: a row per bar with its label, its place, GPU-hours and money."""
    figures = [_figures(bar) for bar in bars]
    row = _ROW_PIXELS + _MONEY_PIXELS * max(0, max(map(len, figures)) - 2)
    longest = max(len(line) for lines in figures for line in lines)
    bars_to = max(_BARS_FROM, min(_BARS_TO, _FIGURES_TO - _CHARACTER * longest))
    height = row * len(bars) + 12
    figure, axes = _canvas(height)
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(height - 6, -6)
    whole = bars[0].amount.gpu_hours
    per_hour = (bars_to - _BARS_FROM) / whole if whole > NO_TIME else 0.0
    used = 0.0
    for number, (bar, lines) in enumerate(zip(bars, figures, strict=True)):
        middle, thickness = (number + 0.5) * row, 26
        start, length = _BARS_FROM + used * per_hour, bar.amount.gpu_hours * per_hour
        axes.barh(middle, length, thickness, start, color=_COLOURS[bar.kind], linewidth=0)
        if number:
            used += bar.amount.gpu_hours
            # from the bar above to this one, where there is time to lead on to
            if length:
                axes.plot([start, start], [middle - row + thickness / 2, middle - thickness / 2], color=_LINE, linewidth=1)
        _write_label(axes, bar, middle)
        _write_figures(axes, bar, lines, middle)
    return _png(figure)


def _write_label(axes: Axes, bar: Bar, middle: float) -> None:
    label = bar.label.replace(" ", "\n", 1) if len(bar.label) > _LONG_LABEL else bar.label
    axes.text(0.015, middle, label, weight=_weight(bar), linespacing=1.05, fontsize=_LETTERS, **_TEXT)


def _figures(bar: Bar) -> list[str]:
    """GPU-hours, and each currency on a line of its own; what has no price stands on the last."""
    lines = [f"{hours(bar.amount.gpu_hours)} h"] if bar.hours else []
    for money in bar.money.split(" + ") if bar.money != "–" else []:
        if money == "?":
            lines[-1] += " + ?"
        else:
            lines.append(money)
    return lines


def _write_figures(axes: Axes, bar: Bar, lines: Sequence[str], middle: float) -> None:
    for number, line in enumerate(lines):
        style: dict[str, Any] = {"fontsize": _SMALL, "color": _FAINT}
        if number == 0 and bar.hours:
            style = {"fontsize": _LETTERS, "weight": _weight(bar)}
        offset = (number - (len(lines) - 1) / 2) * _MONEY_PIXELS
        axes.text(_FIGURES_TO, middle + offset, line, ha="right", **(_TEXT | style))


def _weight(bar: Bar) -> str:
    return "bold" if bar.kind in ("whole", "productive") else "normal"


def draw_trend(days: Sequence[Net]) -> bytes:
    """The ratio of each day, and the interval where too little was observed to say it."""
    figure, axes = _canvas(230, margins=(0.095, 0.13, 0.97, 0.95))
    known = [(day, low, high) for day in days if (low := day.low) is not None and (high := day.high) is not None]
    positions = [(day.usage_date - days[0].usage_date).days for day, _, _ in known]
    for position, (day, low, high) in zip(positions, known, strict=True):
        if day.ratio is None:
            axes.vlines(position, low, high, color=_NEUTRAL, linewidth=9)
    for run in _unbroken(positions):
        lows = [known[index][1] for index in run]
        axes.plot([positions[index] for index in run], lows, color=_GOOD, linewidth=2.4, marker="o", markersize=5)
    span = max((days[-1].usage_date - days[0].usage_date).days, 1)
    axes.set_xlim(-0.5, span + 0.5)
    top = min(1.0, 1.25 * max((high for _, _, high in known), default=1.0)) or 1.0
    # the figure itself stands above the picture
    axes.plot(positions[-1:], [low for _, low, _ in known[-1:]], color=_INK, marker="o", markersize=9)
    # a little room, so that a mark at nothing or at everything is whole
    axes.set_ylim(-0.03 * top, 1.04 * top)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:.0%}"))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    ticks = sorted({0, span // 2, span}) if len(days) > 2 else sorted({0, span})
    axes.set_xticks(ticks, [f"{days[0].usage_date + timedelta(days=tick):%m-%d}" for tick in ticks])
    axes.tick_params(colors=_FAINT, labelsize=_SMALL, length=0)
    axes.grid(axis="y", color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)
    return _png(figure)


def _unbroken(positions: Sequence[int]) -> list[list[int]]:
    """Indexes of days that follow one another: a line across a day without figures would claim some."""
    runs: list[list[int]] = []
    for index, position in enumerate(positions):
        if runs and position == positions[index - 1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _canvas(height_pixels: int, margins: tuple[float, float, float, float] = (0, 0, 1, 1)) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_PIXELS / 100, height_pixels / 100), dpi=_DPI, facecolor=_PAPER)
    left, bottom, right, top = margins
    axes = figure.add_axes((left, bottom, right - left, top - bottom), facecolor=_PAPER)
    return figure, axes


def _png(figure: Figure) -> bytes:
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="rgba", dpi=_DPI, facecolor=_PAPER)
    size = (round(figure.get_figwidth() * _DPI), round(figure.get_figheight() * _DPI))
    # a palette makes a third of it: flat colours and the edges of letters need no more
    Image.frombytes("RGBA", size, drawn.getvalue()).convert("RGB").quantize(_COLOURS_KEPT).save(small, "png", optimize=True)
    return small.getvalue()
