"""The pairs of one case as a small SVG: a dot a pair, in the order of time, with the margin and the interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

_WIDTH, _HEIGHT, _PAD = 420, 160, 34


def pairs_svg(
    title: str, log_ratios: Sequence[float], *, margin: float, low: float | None = None, high: float | None = None
) -> str:
    """Return a drawing of ``log_ratios`` (head over base); ``margin``, ``low`` and ``high`` are relative differences.

    Colours follow the page (``currentColor``), so that it reads in the dark too; a description says the same in words.
    """
    differences = [math.expm1(value) for value in log_ratios]
    most = 1.15 * max([abs(value) for value in differences] + [abs(margin), abs(low or 0), abs(high or 0), 0.01])
    ends = f"{min(differences, default=0):+.1%} and {max(differences, default=0):+.1%}"
    described = f"{len(differences)} pairs; head over base between {ends}; margin {margin:.1%}"

    def y(value: float) -> float:
        inner = _HEIGHT - 2 * _PAD
        return round(_PAD + inner * (0.5 - value / (2 * most)), 1)

    step = (_WIDTH - 2 * _PAD) / max(len(differences), 1)
    dots = "".join(
        f'<circle cx="{round(_PAD + step * (index + 0.5), 1)}" cy="{y(value)}" r="3" fill="currentColor"/>'
        for index, value in enumerate(differences)
    )
    band = ""
    if low is not None and high is not None:
        top, bottom = y(high), y(low)
        size = f'width="{_WIDTH - 2 * _PAD}" height="{max(bottom - top, 1):.1f}"'
        band = f'<rect x="{_PAD}" y="{top}" {size} opacity="0.15"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label={quoteattr(f"{title}: {described}")} font-family="sans-serif" font-size="10">'
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc>{band}"
        f"{_line(y(0), '0%')}{_line(y(margin), f'{margin:+.0%}', dashed=True)}{dots}"
        f'<text x="{_PAD}" y="14" fill="currentColor">{escape(title)}</text></svg>\n'
    )


def _line(height: float, label: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    line = f'<line x1="{_PAD}" x2="{_WIDTH - _PAD}" y1="{height}" y2="{height}" stroke="currentColor"{dash}/>'
    return f'{line}<text x="2" y="{height + 3}" fill="currentColor">{escape(label)}</text>'
