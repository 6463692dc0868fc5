"""Whether measured values are flat, and a plot of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]
"""(s, value), in time order."""
MIN_POINTS = 6
WIDTH, ROW, LEFT, RIGHT = 900, 110, 60, 250
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


class Fit(NamedTuple):
    """A straight line through the last two thirds of a series, by least squares."""

    mean: float
    growth: float
    """By how much the line rises over these two thirds."""
    per_hour: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        """Falling is flat, too: memory that is given back is no leak."""
        return self.growth <= self.allowed


def fit(points: Points, allowed: float, allowed_share: float) -> Fit | None:
    """The fit; it may grow by `allowed` or by that share of the mean, whichever is more. None: too few points."""
    if not points:
        return None
    begin, end = points[0][0], points[-1][0]
    late = [(at, value) for at, value in points if at >= begin + (end - begin) / 3]
    if len(late) < MIN_POINTS:
        return None
    mean_s = sum(at for at, _ in late) / len(late)
    mean = sum(value for _, value in late) / len(late)
    spread = sum((at - mean_s) ** 2 for at, _ in late)
    slope = sum((at - mean_s) * (value - mean) for at, value in late) / spread if spread else 0.0
    return Fit(mean, slope * (late[-1][0] - late[0][0]), slope * 3_600, max(allowed, mean * allowed_share))


def plot(path: Path, title: str, charts: Sequence[tuple[str, dict[str, Points]]]) -> None:
    """An SVG with a chart for each measure, a line for each process, from zero."""
    height = 40 + len(charts) * (ROW + 30) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]
    until = max((points[-1][0] for _, series in charts for points in series.values() if points), default=1.0)
    for number, (name, series) in enumerate(charts):
        parts += _chart(50 + number * (ROW + 30), name, series, until or 1.0)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _chart(top: int, name: str, series: dict[str, Points], until: float) -> list[str]:
    greatest = max((value for points in series.values() for _, value in points), default=0.0) or 1.0
    right, bottom = WIDTH - RIGHT, top + ROW
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{right - LEFT}" height="{ROW}" fill="none" stroke="#ccc"/>',
        f'<text x="{LEFT}" y="{top - 5}">{escape(name)}</text>',
        f'<text x="{LEFT - 5}" y="{top + 10}" text-anchor="end">{greatest:,.0f}</text>',
        f'<text x="{LEFT - 5}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{right}" y="{bottom + 12}" text-anchor="end">{until / 60:.0f} min</text>',
    ]
    for number, (label, points) in enumerate(series.items()):
        color = _COLORS[number % len(_COLORS)]
        line = " ".join(
            f"{LEFT + at / until * (right - LEFT):.1f},{bottom - value / greatest * ROW:.1f}" for at, value in points
        )
        shown = f"{label}: {points[-1][1]:,.0f}" if points else label
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.3" points="{line}"/>')
        parts.append(f'<text x="{right + 10}" y="{top + 12 + number * 14}" fill="{color}">{escape(shown)}</text>')
    return parts
