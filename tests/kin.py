"""Which methods stand for their relatives where every method is asked the same."""

from collections.abc import Collection
from typing import Any

import pytest

from earl.experiments.catalogue import METHODS

CLOSED_FORM = ("ncm", "slda", "ranpac", "knn")  # they train nothing by gradient
# Each is a few lines beside `earl`, `vanilla-etf` or `er`: what all are asked, they are asked by
# `pytest -m slow`.
RELATIVES = ("earl-no-rc", "earl-no-pdt", "earl-learnable", "er-memory-only")


def every_method(but: Collection[str] = ()) -> list[Any]:
    """Return the names of all methods, for `parametrize`; those of relatives are slow."""
    names = [name for name in METHODS.names() if name not in but]
    return [pytest.param(n, marks=pytest.mark.slow) if n in RELATIVES else n for n in names]
