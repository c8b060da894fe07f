"""Who keeps a run while it goes on: the first rank, which saves it; others only learn with it."""

from types import TracebackType

from earl.errors import NoProgress, NotFinite
from earl.evaluation.loop import Moment
from earl.experiments.runs.clock import Clock
from earl.experiments.runs.saves import Saves
from earl.learning.learner import Learner
from earl.nn.ranks import Alone

Kind = type[BaseException] | None


class Keeper:
    """Saves a run now and then, when it is stopped, and at its end.

    As a context it brings the learner to the newest snapshot, and returns where the run stands.
    """

    def __init__(self, saves: Saves, learner: Learner, ranks: Alone, interval: float) -> None:
        self.saves, self.learner, self.ranks = saves, learner, ranks
        self.interval = interval  # seconds between two snapshots

    def __enter__(self) -> Moment:
        start, seconds = self.saves.go_on(self.learner)
        if self.ranks.size > 1:
            self.ranks.share((start, self.learner.state_dict()))
        self.clock = Clock(seconds, self.interval)
        self.moment = self.copied = start  # where the run stands; what was copied last
        return start

    def keep(self, moment: Moment) -> None:
        """Write down an evaluation, and begin with a snapshot when it is time for one.

        If the last one could not be written, that is an error now.
        """
        self.moment = moment
        self.saves.background.check()
        if moment.evaluation:
            self.saves.append(moment.evaluation)
        if self.clock.due(self.saves.background.seconds):
            with self.clock.saving():
                self._begin()

    def _begin(self) -> None:
        self.saves.save(self.learner, self.moment, self.clock.seconds())
        self.copied = self.moment

    def _save(self) -> None:
        """Save the run as it stands; it is on the disk when this returns."""
        self._begin()
        self.saves.background.wait()

    def __exit__(self, kind: Kind, error: BaseException | None, at: TracebackType | None) -> None:
        self.saves.background.wait()  # first, also after an error: the directory is free afterwards
        if kind is None:
            self._save()
            self.saves.finish(self.clock.seconds())
            self.ranks.leave()
        elif kind is GeneratorExit:  # the run is stopped, by all ranks at the same sample
            if self.moment is not self.copied:
                self._save()
            self.ranks.leave()
        elif isinstance(error, NoProgress):  # of all ranks at the same sample, and changed nothing
            if self.moment is not self.copied:
                self._save()
            where = f"{self.saves.path} is saved as of step {self.copied.step}"
            raise NoProgress(f"{error}; {where}") from error
        elif isinstance(error, NotFinite):
            where = f"{self.saves.path} stays as it was at step {self.copied.step}"
            raise NotFinite(f"{error}; {where}") from error


class Follower:
    """Begins where the first rank does, and keeps nothing."""

    def __init__(self, learner: Learner, ranks: Alone) -> None:
        self.learner, self.ranks = learner, ranks

    def __enter__(self) -> Moment:
        start, state = self.ranks.share()
        self.learner.load_state_dict(state)
        found: Moment = start
        return found

    def keep(self, moment: Moment) -> None:
        """Keep nothing: the first rank does."""

    def __exit__(self, kind: Kind, error: BaseException | None, at: TracebackType | None) -> None:
        if kind in (None, GeneratorExit):
            self.ranks.leave()
