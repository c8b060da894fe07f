"""Steps that were undone are counted; where there are no others, learning ends."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from earl.errors import NoProgress, NotFinite
from earl.learning.progress import PATIENCE, UNREAD, Progress
from earl.learning.work import Pass, Work


def after(updates: list[list[bool]], elsewhere: bool = False) -> Progress:
    progress = Progress()
    for steps in updates:
        for taken in steps:
            progress.note(torch.tensor(taken) if elsewhere else taken)
        progress.end_update()
    return progress


@given(st.lists(st.lists(st.booleans(), max_size=3), max_size=200), st.booleans())
def test_every_step_that_is_not_taken_counts_once(
    updates: list[list[bool]], elsewhere: bool
) -> None:
    skipped = sum(steps.count(False) for steps in updates)
    assert after(updates, elsewhere).skipped_steps == skipped


@pytest.mark.parametrize("elsewhere", [False, True])
def test_only_updates_in_a_row_without_any_step_end_learning(elsewhere: bool) -> None:
    bad, good = [False, False], [False, True]
    for updates in ([bad] * (PATIENCE - 1), [bad] * 99 + [good], [good] * 99, [[]] * 99):
        progress = after(updates, elsewhere)
        assert progress.skipped_steps == sum(map(len, updates)) - updates.count(good)
        progress.check()
    progress = after([good, *[bad] * PATIENCE], elsewhere)
    assert progress.skipped_steps == 1 + 2 * PATIENCE
    with pytest.raises(NoProgress, match=f"^{PATIENCE} updates in a row led to inf or nan") as told:
        progress.check()
    assert isinstance(told.value, NotFinite)


def test_a_device_is_asked_by_and_by_even_if_nobody_wants_to_know() -> None:
    progress = after([[False]] * (UNREAD - 1), elsewhere=True)
    progress.check()  # it has not been asked
    progress = after([[False]] * UNREAD, elsewhere=True)
    with pytest.raises(NoProgress):
        progress.check()


@given(st.integers(0, PATIENCE - 1))
def test_counting_goes_on_where_it_was_saved(n: int) -> None:
    old, new = after([[True], *[[False]] * n]), Progress()
    new.load_state_dict(old.state_dict())
    for _ in range(PATIENCE - n):
        new.check()
        new.note(False)
        new.end_update()
    assert new.skipped_steps == PATIENCE
    with pytest.raises(NoProgress):
        new.check()


def test_a_learner_that_had_stopped_may_try_again_once_it_is_loaded() -> None:
    progress = Progress()
    progress.load_state_dict(after([[False]] * PATIENCE).state_dict())
    progress.check()
    assert progress.skipped_steps == PATIENCE


def test_what_earlier_versions_have_saved_has_skipped_nothing() -> None:
    work = Work(lambda: {"images": Pass(torch.nn.Linear(1, 1), (1,))})
    state = work.state_dict()
    del state["skipped_steps"], state["in_a_row"]
    work.load_state_dict(state)
    assert work.costs()["skipped_steps"] == 0 and set(work.counts) == {"images", "forwards"}
