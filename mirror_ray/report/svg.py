"""Charts as inline SVG: lines over time, and bars. Every text is escaped.

Colours are CSS variables of the document (``--series-1`` and so on, ``--grid``, ``--muted``), which has them for light
and dark. Each point in time has a title, which browsers show under the pointer and screen readers read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from mirror_ray.report.number_format import moment, tick

_WIDTH, _HEIGHT = 560, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 8, 12, 26
_Y_TICKS = 4
_X_TICKS = 6
_BAR, _BAR_GAP, _LABEL, _VALUE = 18, 8, 190, 140
#: The width of a character beside a bar.
_CHARACTER = 7
_LABEL_LENGTH = 22
#: Of the longest bar, whatever is written beside it.
_LEAST_ROOM = 60
#: Lengths of time between the marks of an axis.
_TICKS_MS = tuple(
    seconds * 1000
    for seconds in (10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line. A value of None is a break in it."""

    name: str
    values: Sequence[float | None]
    #: Whether the area below it is filled.
    filled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar, and the text beside it."""

    label: str
    value: float
    text: str


def line_chart(
    title: str,
    description: str,
    times_ms: Sequence[int],
    step_ms: int,
    *,
    series: Sequence[Series],
    words: Callable[[float | None], str],
    logarithmic: bool = False,
) -> str:
    """Lines over time, each with a value for each step; ``words`` writes one. ``times_ms``: where the steps begin.

    ``logarithmic``: each mark of the axis is ten times the one before; what is below 1 is drawn at 1.
    """
    known = [value for line in series for value in line.values if value is not None]
    if not known:
        return f'<p class="empty">{escape(title)}: nothing is known of this time.</p>'
    marks = _log_marks(max(known)) if logarithmic else _marks(max(known))
    scale = math.log10 if logarithmic else float
    low, high = scale(marks[0]), scale(marks[-1])

    def height(value: float) -> float:
        share = (scale(max(value, marks[0])) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    first, last = times_ms[0], times_ms[-1] + step_ms
    width = _WIDTH - _LEFT - _RIGHT

    def place(time_ms: float) -> float:
        return _LEFT + (time_ms - first) / (last - first) * width

    middles = [place(time_ms + step_ms / 2) for time_ms in times_ms]
    parts = [_grid(marks, height, words), _time_axis(first, last, place)]
    for index, line in enumerate(series, 1):
        parts.append(_line(index, line, middles, height))
    parts.append(_hover(times_ms, step_ms, series, words, place))
    return _svg(title, description, _HEIGHT, "".join(parts)) + _legend(series)


def bar_chart(title: str, description: str, bars: Sequence[Bar], label_length: int = _LABEL_LENGTH) -> str:
    """Bars from left to right, each with its label, cut to ``label_length``, and its value in words."""
    if not bars:
        return f'<p class="empty">{escape(title)}: there is nothing to show.</p>'
    largest = max(bar.value for bar in bars) or 1.0
    labels = [bar.label if len(bar.label) <= label_length else f"{bar.label[: label_length - 1]}…" for bar in bars]
    left = max(_LABEL, 8 + _CHARACTER * max(map(len, labels)))
    beside = max(_VALUE, 16 + _CHARACTER * max(len(bar.text) for bar in bars))
    room = max(_LEAST_ROOM, _WIDTH - left - beside)
    parts = []
    for index, (bar, label) in enumerate(zip(bars, labels, strict=True)):
        top = index * (_BAR + _BAR_GAP)
        middle = top + _BAR / 2 + 4
        length = max(1.0, bar.value / largest * room)
        parts.append(
            f"<g><title>{escape(f'{bar.label}: {bar.text}')}</title>"
            f'<text x="{left - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="bar" x="{left}" y="{top}" width="{length:.1f}" height="{_BAR}" rx="2"/>'
            f'<text class="muted" x="{left + length + 8:.1f}" y="{middle}">{escape(bar.text)}</text></g>'
        )
    return _svg(title, description, len(bars) * (_BAR + _BAR_GAP), "".join(parts))


def _svg(title: str, description: str, height: int, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{content}</svg>"
    )


def _grid(marks: Sequence[float], height: Callable[[float], float], words: Callable[[float | None], str]) -> str:
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height(mark):.1f}" y2="{height(mark):.1f}"/>'
        f'<text class="muted" x="{_LEFT - 8}" y="{height(mark) + 4:.1f}" text-anchor="end">{escape(words(mark))}</text>'
        for mark in marks
    )


def _time_axis(first: int, last: int, place: Callable[[float], float]) -> str:
    step = next((length for length in _TICKS_MS if (last - first) / length <= _X_TICKS), _TICKS_MS[-1])
    begin = -(-first // step) * step
    return "".join(
        f'<line class="grid" x1="{place(at):.1f}" x2="{place(at):.1f}" y1="{_HEIGHT - _BOTTOM}"'
        f' y2="{_HEIGHT - _BOTTOM + 4}"/>'
        f'<text class="muted" x="{place(at):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{tick(at, step)}</text>'
        for at in range(begin, last + 1, step)
        if _LEFT + 16 <= place(at) <= _WIDTH - _RIGHT - 16
    )


def _line(index: int, series: Series, places: Sequence[float], height: Callable[[float], float]) -> str:
    parts = []
    for run in _runs(series.values):
        points = [f"{places[at]:.1f},{height(value):.1f}" for at, value in run]
        start, end = places[run[0][0]], places[run[-1][0]]
        if len(points) == 1:
            x, y = points[0].split(",")
            parts.append(f'<circle class="dot s{index}" cx="{x}" cy="{y}" r="2.5"/>')
            continue
        if series.filled:
            base = _HEIGHT - _BOTTOM
            parts.append(
                f'<polygon class="area s{index}" points="{start:.1f},{base} {" ".join(points)} {end:.1f},{base}"/>'
            )
        parts.append(f'<polyline class="line s{index}" points="{" ".join(points)}"/>')
    return "".join(parts)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Runs of values without a break, each value with its index."""
    runs: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, value))
    return [run for run in runs if run]


def _hover(
    times_ms: Sequence[int],
    step_ms: int,
    series: Sequence[Series],
    words: Callable[[float | None], str],
    place: Callable[[float], float],
) -> str:
    parts = []
    for at, time_ms in enumerate(times_ms):
        values = ", ".join(f"{line.name} {words(line.values[at])}" for line in series)
        start, end = place(time_ms), place(time_ms + step_ms)
        parts.append(
            f'<rect class="hover" x="{start:.1f}" y="{_TOP}" width="{end - start:.1f}"'
            f' height="{_HEIGHT - _TOP - _BOTTOM}"><title>{escape(f"{moment(time_ms)} UTC: {values}")}</title></rect>'
        )
    return "".join(parts)


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = "".join(f'<li><i class="s{index}"></i>{escape(line.name)}</li>' for index, line in enumerate(series, 1))
    return f'<ul class="legend">{items}</ul>'


def _marks(largest: float) -> list[float]:
    """From 0 to above the largest value, in round steps."""
    raw = largest / _Y_TICKS
    if raw <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * (1 - 1e-9))
    return [step * count for count in range(math.ceil(largest / step - 1e-9) + 1)]


def _log_marks(largest: float) -> list[float]:
    return [10.0**power for power in range(max(1, math.ceil(math.log10(max(largest, 1.0)))) + 1)]
