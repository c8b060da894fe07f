"""The model behind an estimator: all that learning changes, without anybody's conventions."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from earl.errors import ClassCapacityError
from earl.estimator.build import Reader, make_learner, make_reader
from earl.estimator.eye import EyeReader
from earl.estimator.history import ClassRecord, History, LearningCurve
from earl.estimator.keys import Key, Keys
from earl.estimator.labels import LabelMap
from earl.estimator.parameters import Parameters
from earl.experiments.machine import check_threads, threads_for
from earl.learning import Learner
from earl.learning.work import flops
from earl.nn.finite import most_likely

AT_ONCE = 250  # samples that are looked at together
COSINES = (  # methods whose scores are cosines, or nearly so
    *("earl", "vanilla-etf", "earl-no-rc", "earl-no-pdt", "earl-learnable", "scr", "nc-fscil"),
)
# Of probabilities, a factor of the scores; 1 for methods that are not here. Cosines, votes and
# answers of a regression to 0 and 1 differ by little, densities by much. Not calibrated.
SHARPNESS = dict.fromkeys((*COSINES, "ncm", "ranpac", "knn"), 10.0) | {"slda": 0.03}


class Model:
    """A learner, the labels it knows, how it went so far, and the keys of its samples.

    `changes` counts all that ever changed it: samples, forgetting, announced labels.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.reader: Reader = make_reader(parameters)
        self.learner: Learner | None = None
        self.labels = LabelMap()
        self.history = History()
        self.keys = Keys()
        self.forgotten: set[int] = set()  # numbers of labels that are not answered any more
        self.changes = 0
        self.threads = 0  # decided with the first sample, and kept: sums depend on it
        self._asked: tuple[int, Tensor, int | None] | None = None

    # ---- learning

    def _threads(self, learner: Learner, reader: Reader) -> int:
        if self.parameters.threads is not None:
            return check_threads(self.parameters.threads)
        step = learner.setting.batch_size * learner.work.flops_per_input("images")
        seeing = flops(reader.encode.one_pass()) if isinstance(reader, EyeReader) else 0
        return threads_for(max(step, seeing))

    def learn(
        self,
        samples: Sequence[Any],
        labels: Sequence[Hashable],
        keys: Sequence[Key] | None = None,
        *,
        announced: Sequence[Hashable] = (),
    ) -> None:
        """Learn samples one by one, each asked about before; or change nothing.

        Labels that are `announced` get their numbers first.
        """
        reader = self.reader.meet(samples)
        learner = self.learner or make_learner(self.parameters, reader.shape)
        threads = self.threads or self._threads(learner, reader)
        with self.held(threads):
            x = reader.read(samples)
        numbers = self.numbers_for(x, labels, learner, announced)
        self.reader, self.learner, self.threads = reader, learner, threads
        self.labels.add(announced)
        self.observe(x, numbers, labels, keys)

    def numbers_for(
        self,
        x: Tensor,
        labels: Sequence[Hashable],
        learner: Learner,
        announced: Sequence[Hashable] = (),
    ) -> Tensor:
        """Return the numbers of labels, old and new; an error if x cannot be learned with them."""
        numbers = torch.tensor(self.labels.preview([*announced, *labels])[len(announced) :])
        self.check_bound([*announced, *labels])
        self.check_room(labels, learner)
        learner.check(x, numbers)
        return numbers

    def observe(
        self,
        x: Tensor,
        numbers: Tensor,
        labels: Sequence[Hashable],
        keys: Sequence[Key] | None = None,
        *,
        asks: bool = True,
    ) -> None:
        """Learn samples x (n, C, H, W) as the reader has read them, and that were checked."""
        learner = self.learner
        assert learner is not None
        with self.held():
            for place, label in enumerate(labels):
                x_i, y_i = x[place : place + 1], numbers[place : place + 1]
                answer = self._answer(x_i) if asks else None
                learner.observe(x_i, y_i)
                self.labels.add([label])
                number = int(y_i)
                self.forgotten.discard(number)
                self.changes += 1
                if asks:
                    self.history.note(number, answer == number)
                if keys is not None:
                    self.keys.put(keys[place], x_i, number, learner)

    def check_bound(self, labels: Sequence[Hashable]) -> None:
        """Raise ClassCapacityError if there would be more classes than the user wants."""
        most, known = self.parameters.max_classes, len(self.labels)
        new = [label for label in dict.fromkeys(labels) if label not in self.labels]
        if most is not None and known + len(new) > most:
            raise ClassCapacityError(
                f"the label {new[most - known]!r} is new, but max_classes = {most}, and there are "
                f"{known} classes by now; nothing was learned. Leave it out, or begin a model with "
                "a higher max_classes"
            )

    def check_room(self, labels: Sequence[Hashable], learner: Learner) -> None:
        """Raise ClassCapacityError if the labels bring more classes than a method has room for."""
        capacity = learner.classes.capacity
        if capacity is None:
            return
        taught = {self.labels[c] for c in self.taught().tolist()}
        new = [label for label in dict.fromkeys(labels) if label not in taught]
        if len(taught) + len(new) > capacity:
            raise ClassCapacityError(
                f"the label {new[capacity - len(taught)]!r} is new, but all {capacity} classifier "
                "vectors are taken; nothing was learned. Start with more dimensions: "
                "settings={'d': ...} gives d + 1 vectors"
            )

    def forget_key(self, key: Key) -> None:
        """Note that the sample of a key was forgotten."""
        self.keys.drop(key)
        self.changes += 1

    def forget_class(self, number: int) -> None:
        """Note that all samples of a class were forgotten: it is not answered any more."""
        self.keys.drop_class(number)
        self.history.forget(number)
        self.forgotten.add(number)
        self.changes += 1

    def finish(self) -> None:
        """Train on samples that wait, where a method collects them."""
        if self.learner is not None:
            with self.held():
                self.learner.finish()
            self.changes += 1

    # ---- answers

    def read(self, samples: Sequence[Any]) -> Tensor:
        """Return samples as the learner takes them, (n, C, H, W)."""
        with self.held():
            return self.reader.read(samples)

    def taught(self) -> Tensor:
        """Return the numbers of the labels that have been learned, in the order of the scores."""
        if self.learner is None:
            return torch.empty(0, dtype=torch.int64)
        classes = self.learner.classes
        return classes.ids(torch.arange(len(classes)))

    def answered(self) -> list[int]:
        """Return the numbers of the labels that may be answered."""
        return [c for c in self.taught().tolist() if c not in self.forgotten]

    @property
    def can_answer(self) -> bool:
        return self.learner is not None and len(self.learner.classes) > len(self.forgotten)

    def scores(self, x: Tensor) -> Tensor:
        """Return a score for every taught label (n, taught); -inf for one that was forgotten."""
        assert self.learner is not None
        with self.held(), torch.inference_mode():
            parts = [self.learner.scores(part) for part in x.split(AT_ONCE)]
        return self.without_forgotten(torch.cat(parts) if len(parts) > 1 else parts[0])

    def without_forgotten(self, scores: Tensor) -> Tensor:
        """Return scores (n, taught) with -inf for labels that were forgotten."""
        if not self.forgotten:
            return scores
        gone = [c in self.forgotten for c in self.taught().tolist()]
        return scores.masked_fill(torch.tensor(gone, device=scores.device), -torch.inf)

    def numbers(self, x: Tensor) -> Tensor:
        """Return the number of the most likely label of each sample, (n,)."""
        numbers = self.taught()[most_likely(self.scores(x)).cpu()]
        self._asked = (self.changes, x, int(numbers[0])) if len(x) == 1 else None
        return numbers

    def probabilities(self, x: Tensor) -> Tensor:
        """Return the probabilities of all labels, float64 (n, labels); 0 for those never taught."""
        return self.shares(self.scores(x))

    def shares(self, scores: Tensor) -> Tensor:
        """Return scores (n, taught) as probabilities of all labels, float64 (n, labels)."""
        most_likely(scores)  # refuses numbers that are none
        shares = torch.softmax(self.sharpness * scores.double(), dim=1).cpu()
        table = torch.zeros(len(scores), len(self.labels), dtype=torch.float64)
        return table.index_copy_(1, self.taught(), shares)

    @property
    def sharpness(self) -> float:
        """The factor of the scores before they become probabilities."""
        return SHARPNESS.get(self.parameters.method, 1.0)

    def _answer(self, x: Tensor) -> int | None:
        """Return the answer about one sample; if it is the one that was asked last, at once."""
        if not self.can_answer:
            return None
        if self._asked is not None:
            changes, asked, answer = self._asked
            if changes == self.changes and torch.equal(asked, x):
                return answer
        return int(self.taught()[most_likely(self.scores(x)).cpu()])

    @property
    def skipped_steps(self) -> int:
        """Training steps that were not finite, and were undone."""
        return 0 if self.learner is None else self.learner.work.progress.skipped_steps

    def curve(self) -> LearningCurve:
        """Return how learning went."""
        records = zip(self.labels, self.history.classes, strict=False)
        return LearningCurve(
            samples=self.history.all.samples,
            accuracy=self.history.all.accuracy,
            recent=self.history.all.recent,
            curve=self.history.curve(),
            skipped_steps=self.skipped_steps,
            classes={
                label: ClassRecord(tally.samples, tally.accuracy, tally.recent)
                for label, tally in records
            },
        )

    @contextmanager
    def held(self, threads: int | None = None) -> Iterator[None]:
        """Hold torch to the model's number of threads."""
        before, threads = torch.get_num_threads(), threads or self.threads
        if before == threads:
            yield
            return
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        return {
            "learner": None if self.learner is None else self.learner.state_dict(),
            "reader": self.reader.state_dict(),
            "labels": self.labels.state_dict(),
            "history": self.history.state_dict(),
            "keys": self.keys.state_dict(),
            "forgotten": sorted(self.forgotten),
            "changes": self.changes,
            "threads": self.threads,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.reader = self.reader.restored(state["reader"])
        self.labels.load_state_dict(state["labels"])
        self.history.load_state_dict(state["history"])
        self.keys.load_state_dict(state["keys"])
        self.forgotten = set(state["forgotten"])
        self.changes, self.threads = state["changes"], state["threads"]
        self._asked = None
        self.learner = None
        if state["learner"] is not None:
            self.learner = make_learner(self.parameters, self.reader.shape)
            self.learner.load_state_dict(state["learner"])
