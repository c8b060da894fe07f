"""The harness of B9 finds each thing that may grow, by sizes that were made up."""

from dataclasses import replace

import pytest

from earl.crashtest.growth import Sizes, check
from earl.crashtest.harness import Found

USUAL = Sizes(rss_mb=300, peak_mb=310, files=20, journal=1 << 20, log=1 << 20, snapshot=1000)


def wrong(last: Sizes, bound_mb: float = 500) -> list[str]:
    found = Found()
    check([USUAL] * 20 + [last] * 20, bound_mb, found)
    return found.wrong


def test_what_stays_as_it_is_keeps_the_bar() -> None:
    assert wrong(USUAL) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"peak_mb": 501}, "memory came to 501 MB, of 500 computed"),
        ({"rss_mb": 311}, "memory grew"),
        ({"journal": 9 << 20}, "the journal"),
        ({"log": 65 << 20}, "its log"),
        ({"files": 21}, "open files"),
        ({"snapshot": 1020}, "snapshots"),
    ],
)
def test_each_thing_that_grows_is_found_alone(changed: dict[str, int], said: str) -> None:
    (line,) = wrong(replace(USUAL, **changed))
    assert line.startswith(said)
