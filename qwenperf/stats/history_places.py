"""Where between two edges a step is most likely, and how likely noise alone looks as much like one somewhere there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from qwenperf.stats.history_model import Errors, orthonormal, whiten
from qwenperf.stats.history_noise import Array
from qwenperf.stats.student import upper_tail

NEIGHBOURS = 5
"""Points to either side that are as good as the place itself for whoever looks for a commit."""

_CLEARLY = 0.95
_COVERED = 0.95
_LEAST_TAIL = 1e-16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_STANDARD = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A step tried at each of ``places``: its size in standard errors, and how much the other columns leave of it."""

    places: NDArray[np.int_]
    scores: Array
    lengths: Array
    neighbours: Array
    freedom: int

    @property
    def best(self) -> int:
        """The place at which a step explains most."""
        return int(self.places[int(np.argmax(np.abs(self.scores)))])

    @property
    def highest(self) -> float:
        """Its size in standard errors, without sign."""
        return float(np.abs(self.scores).max())

    def p_value(self) -> float:
        """Return at most how often unchanged noise has a step of that size at any of the places.

        P(any) <= P(first) + sum of P(here and not at the place before): Worsley, "An improved Bonferroni inequality and
        applications" (1982), who bounds by it how often a change of level is found where there is none. Student's t is
        turned into the normal score of the same probability first.
        """
        tail = max(upper_tail(self.highest, self.freedom), _LEAST_TAIL)
        level = -_STANDARD.inv_cdf(tail)
        return min(1.0, 2 * (tail + float(_entered(level, self.neighbours).sum())))

    def chances(self) -> Array:
        """Return how likely each place is that of the step, given that there is one and all were as likely before.

        The likelihood of a step of any size: exp(score^2 / 2) / length. Smith, "A Bayesian approach to inference about
        a change-point in a sequence of random variables" (1975).
        """
        logs = self.scores**2 / 2 - np.log(self.lengths) / 2
        found = np.exp(logs - logs.max())
        return np.asarray(found / found.sum())

    def located(self) -> tuple[int, int, int]:
        """Return the place, and the first and last that together with what is between have a chance of 95%.

        The place is the likeliest one, unless it and the five on either side are clearly less likely than another
        eleven, of which it then is the middle: correlated noise has single jumps.
        """
        chances = self.chances()
        around = np.convolve(chances, np.ones(2 * NEIGHBOURS + 1))[NEIGHBOURS : NEIGHBOURS + len(chances)]
        likeliest, middle = int(np.argmax(chances)), int(np.argmax(around))
        place = likeliest if around[likeliest] >= _CLEARLY * around[middle] else middle
        below = np.cumsum(chances)
        first = int(np.searchsorted(below, (1 - _COVERED) / 2))
        last = int(np.searchsorted(below, (1 + _COVERED) / 2))
        low, high = min(first, place), max(min(last, len(chances) - 1), place)
        return int(self.places[place]), int(self.places[low]), int(self.places[high])


def scan(values: Array, others: Array, found: Errors, low: int, high: int) -> Scan:
    """Try a step at each place from ``low`` to ``high``, both included, beside the columns ``others``.

    A step at p is, made independent, 1 at p and 1 - r after it, so that sums over its rows are sums of the rest.
    """
    count, r = len(values), found.correlation
    basis = orthonormal(whiten(others, r))
    rows = whiten(values, r)
    rest = rows - basis @ (basis.T @ rows)
    after = np.arange(low, high + 1)
    products = _stepped(rest[:, None], r)[after, 0]
    shares = _stepped(basis, r)[after]
    lengths = 1 + (1 - r) ** 2 * (count - 1 - after) - (shares**2).sum(axis=1)
    crossed = (1 - r) + (1 - r) ** 2 * (count - 2 - after[:-1]) - (shares[:-1] * shares[1:]).sum(axis=1)
    # A place that the other columns explain whole has nothing left to be told.
    told = lengths > 1e-6
    lengths = np.where(told, lengths, 1.0)
    scores = np.where(told, products / np.sqrt(lengths) / max(found.deviation, 1e-300), 0.0)
    neighbours = np.where(told[:-1] & told[1:], crossed / np.sqrt(lengths[:-1] * lengths[1:]), 0.0)
    return Scan(places=after, scores=scores, lengths=lengths, neighbours=neighbours, freedom=found.freedom)


def _stepped(columns: Array, r: float) -> Array:
    """Return for each place the product of a step there with each column."""
    sums = np.cumsum(columns[::-1], axis=0)[::-1]
    return np.asarray(columns + (1 - r) * (sums - columns))


def _entered(level: float, correlations: Array) -> Array:
    """Return P(Z < level < V) for normal scores Z and V of each correlation, by Gauss and Legendre's rule.

    P = integral over v above level of density(v) * P(Z < level | v), and Z given v has mean r v and variance 1 - r^2.
    """
    r = np.clip(correlations, -0.999999, 0.999999)
    narrow = np.sqrt(1 - r**2)
    # Beyond, the density or the other factor has fallen below 1e-8 of what it is at the level.
    reach = np.minimum(6.0, 6 * narrow / np.maximum(r, 0.05) + level * (1 - r))
    v = level + reach[:, None] * (1 + _NODES) / 2
    density = np.exp(-(v**2) / 2) / math.sqrt(2 * math.pi)
    scores = (r[:, None] * v - level) / (narrow[:, None] * math.sqrt(2))
    below = np.fromiter(map(math.erfc, scores.ravel().tolist()), np.float64, scores.size).reshape(scores.shape) / 2
    return np.asarray((density * below) @ _WEIGHTS * reach / 2)
