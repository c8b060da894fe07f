"""Measured numbers, each beside its target."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from earl.bench.timing import Ratio, Times


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measured number of a row; without a target it only informs."""

    case: str
    value: float
    unit: str = "×"
    target: float | None = None
    at_least: bool = False  # the target is a lower bound
    spread: tuple[float, float] | None = None  # quartiles over the turns
    times: Mapping[str, float] = field(default_factory=dict)  # median milliseconds

    @property
    def ok(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target

    def as_dict(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "at_least": self.at_least,
            "ok": self.ok,
            "spread": list(self.spread) if self.spread else None,
            "milliseconds": dict(self.times),
        }


def ratio_of(
    case: str, times: Times, name: str, beside: str, *, target: float | None, show: bool = True
) -> Measured:
    """Return the ratio of two things' times; `show` their milliseconds too."""
    ratio: Ratio = times.ratio(name, beside)
    shown = {n: 1e3 * times.median(n) for n in (name, beside)} if show else {}
    return Measured(
        case=case,
        value=ratio.value,
        target=target,
        spread=(ratio.low, ratio.high),
        times=shown,
    )
