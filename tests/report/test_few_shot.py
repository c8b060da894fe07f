"""Tables of few samples are made of the curves that a benchmark has kept."""

from dataclasses import replace

import pytest

from earl.errors import InvalidSetting
from earl.report.results.description import Choice, Sheet
from earl.report.results.few_shot import few_shot

CURVES = [  # two counts, two seeds
    {
        "name": "ncm",
        "microseconds": 220,
        "bytes": 51_280,
        "accuracies": {"1": [50, 60], "2": [52, 64]},
    },
    {
        "name": "earl",
        "microseconds": 7000,
        "bytes": 9e6,
        "accuracies": {"1": [51, 60], "2": [55, 64]},
    },
]
SHEET = Sheet(
    name="few",
    kind="few-shot",
    runs="few.json",
    command="python few.py",
    where=("classes=10",),
    versus="ncm",
    compared=("`earl`",),
    rows=tuple(Choice(f"`{name}`", (f"method={name}",)) for name in ("ncm", "earl", "knn")),
)


CONTENT = {
    **{"train": 4500, "test": 1500, "counts": [1, 5]},
    "curves": [{"classes": 10, **curve} for curve in CURVES],
}


def test_means_paired_differences_costs_and_what_was_not_run() -> None:
    text = few_shot(SHEET, CONTENT)
    assert "| `ncm` | 51.0 | 62.0 | 220 | 51.3 kB |" in text
    assert "| `earl` | 53.0 | 62.0 | 7,000 | 9 MB |" in text
    # by hand: +1 and +3, mean 2, s = 1.414, t = 12.706, so 2 ± 12.7
    assert "| `earl` − `ncm` | +2.0 [−10.7, +14.7] | 0.0 [0.0, 0.0] |" in text
    assert "| `knn` | not run yet |" in text
    assert "10 classes" in text and "seeds 1, 2" in text and "`python few.py`" in text


def test_a_row_to_subtract_must_be_there() -> None:
    with pytest.raises(InvalidSetting, match="no curve to subtract"):
        few_shot(replace(SHEET, versus="slda"), CONTENT)
