"""The pairs of one case as a small SVG: a dot a pair, in the order of time, with the margin and the interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from qwenperf.report.series_scale import printable

_WIDTH, _HEIGHT, _PAD, _FOOT = 420, 160, 34, 12


def pairs_svg(
    title: str, log_ratios: Sequence[float], *, margin: float, low: float | None = None, high: float | None = None
) -> str:
    """Return a drawing of ``log_ratios`` (head over base); ``margin``, ``low`` and ``high`` are relative differences.

    Colours follow the page (``currentColor``), so that it reads in the dark too; a description says the same in words.
    """
    title, differences = printable(title), [math.expm1(value) for value in log_ratios]
    shown = [*differences, margin, low or 0.0, high or 0.0, 0.0, 0.01, -0.01]
    bottom, top = 1.1 * min(shown), 1.1 * max(shown)
    ends = f"{min(differences, default=0):+.1%} and {max(differences, default=0):+.1%}"
    described = f"{len(differences)} pairs; head over base between {ends}; margin {margin:.1%}"

    def y(value: float) -> float:
        return round(_PAD + (_HEIGHT - _PAD - _FOOT) * (top - value) / (top - bottom), 1)

    step = (_WIDTH - 2 * _PAD) / max(len(differences), 1)
    dots = "".join(
        f'<circle cx="{round(_PAD + step * (index + 0.5), 1)}" cy="{y(value)}" r="3" fill="currentColor"/>'
        for index, value in enumerate(differences)
    )
    band = ""
    if low is not None and high is not None:
        size = f'width="{_WIDTH - 2 * _PAD}" height="{max(y(low) - y(high), 1):.1f}"'
        band = f'<rect x="{_PAD}" y="{y(high)}" {size} fill="currentColor" opacity="0.15"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label={quoteattr(f"{title}: {described}")} font-family="sans-serif" font-size="10">'
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc>{band}"
        f"{_line(y(0), '0%')}{_line(y(margin), f'{100 * margin:+.3g}%', margin=True)}{dots}"
        f'<text x="{_PAD}" y="14" fill="currentColor">{escape(title)}</text></svg>\n'
    )


def _line(height: float, label: str, *, margin: bool = False) -> str:
    """Return a line across; the margin's is dashed and has its label at the other end, where 0 cannot cover it."""
    dash, x = (' stroke-dasharray="4 3"', _WIDTH - _PAD + 2) if margin else ("", 2)
    line = f'<line x1="{_PAD}" x2="{_WIDTH - _PAD}" y1="{height}" y2="{height}" stroke="currentColor"{dash}/>'
    return f'{line}<text x="{x}" y="{height + 3}" fill="currentColor">{escape(label)}</text>'
