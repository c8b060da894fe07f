"""Steps that were taken and steps that were undone: counted, until there are only those."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from earl.errors import NoProgress
from earl.nn.steps import Taken

PATIENCE = 10  # updates in a row of which no step is taken
UNREAD = 64  # updates on a device that nobody has asked about yet


class Progress:
    """Counts steps that were undone, and updates in a row of which no step was taken.

    A device that nobody waits for knows by itself what became of a step. It is asked when somebody
    wants to know, and after some updates.
    """

    def __init__(self) -> None:
        self._skipped = 0
        self._in_a_row = 0
        self._steps: list[Taken] = []  # of the present update
        self._unread: list[list[Taken]] = []  # of updates that nobody has looked at yet

    def note(self, taken: Taken) -> None:
        """Take notice of a step of the present update: whether it was taken, or undone."""
        self._steps.append(taken)

    def end_update(self) -> None:
        """The update has ended, with all its steps."""
        if not self._steps:
            return
        waits = any(isinstance(step, Tensor) for step in self._steps)
        self._unread.append(self._steps)
        self._steps = []
        if not waits or len(self._unread) >= UNREAD:
            self._read()

    def _read(self) -> None:
        for steps in self._unread:
            taken = [bool(step) for step in steps]
            self._skipped += taken.count(False)
            self._in_a_row = 0 if any(taken) else self._in_a_row + 1
        self._unread = []

    @property
    def skipped_steps(self) -> int:
        self._read()
        return self._skipped

    def check(self) -> None:
        """Raise NoProgress if no step of the last updates was taken, so many that it is no use."""
        if self._in_a_row >= PATIENCE:
            raise NoProgress(
                f"{self._in_a_row} updates in a row led to inf or nan and were undone, so learning "
                "has stopped, with the weights as they were before; choose a smaller lr, or see "
                "what is peculiar about the last samples"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"skipped_steps": self.skipped_steps, "in_a_row": self._in_a_row}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on counting; a learner that had stopped may try again."""
        self._skipped = state["skipped_steps"]
        self._in_a_row = state["in_a_row"] if state["in_a_row"] < PATIENCE else 0
        self._steps, self._unread = [], []
