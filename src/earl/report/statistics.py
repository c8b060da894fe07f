"""Statistics over seeds: a mean with its spread, and a paired difference with its interval."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import TypeVar

from earl.errors import EarlError

LEVEL = 0.95  # of confidence
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Spread:
    """The mean of n values and their sample standard deviation; one value has no deviation."""

    mean: float
    std: float | None
    n: int

    def band(self, lowest: float, highest: float) -> tuple[float, float]:
        """Return mean ± one deviation, within the possible values; one value has no deviation."""
        std = self.std or 0.0
        return max(lowest, self.mean - std), min(highest, self.mean + std)


@dataclass(frozen=True)
class Difference:
    """The mean of n paired differences and its confidence interval, which needs two of them."""

    mean: float
    low: float | None
    high: float | None
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Return mean and sample standard deviation (divided by n - 1)."""
    if not values:
        raise EarlError("there are no values to average")
    n = len(values)
    mean = fsum(values) / n
    if n == 1:
        return Spread(mean, None, 1)
    apart = [value - mean for value in values]
    squares = fsum(d * d for d in apart) - fsum(apart) ** 2 / n  # the mean is rounded
    return Spread(mean, sqrt(max(0.0, squares) / (n - 1)), n)


def paired_difference(
    ours: Mapping[Key, float], theirs: Mapping[Key, float], level: float = LEVEL
) -> Difference | None:
    """Return the mean of ours - theirs over common keys (seeds); None if there are none.

    The interval is mean ± t · s / √n with Student's t of n - 1 degrees of freedom and s the sample
    standard deviation of the differences. It takes them to be independent and about normal, and
    with three seeds t is 4.3: few runs cannot give a narrow interval.
    """
    differences = [value - theirs[key] for key, value in ours.items() if key in theirs]
    if not differences:
        return None
    whole = spread(differences)
    if whole.std is None:
        return Difference(whole.mean, None, None, 1)
    from scipy.special import stdtrit  # importing it takes longer than making a table without it

    t = float(stdtrit(whole.n - 1, (1 + level) / 2))
    half = t * whole.std / sqrt(whole.n)
    return Difference(whole.mean, whole.mean - half, whole.mean + half, whole.n)
