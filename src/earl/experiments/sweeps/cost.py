"""What the runs of a sweep file cost, found without any data: FLOPs, memory and disk."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from earl.data.dataset import Dataset, Split
from earl.errors import InvalidSetting
from earl.experiments.catalogue import DATASETS
from earl.experiments.estimate import BOTH_WAYS, estimate
from earl.experiments.experiment import Experiment
from earl.experiments.facts import DatasetFacts
from earl.experiments.learners import network_of
from earl.experiments.matching import Cost, cost_of, reference
from earl.experiments.names import Name

BUCKETS = 10  # time buckets of blank data; streams that have none do not look at them
KEPT = 3  # snapshots on disk at a time: two, and the one that is being written
MEASURED = 256  # samples in the memory of a learner that is measured; more would only take room
MOMENTS = 2  # numbers that Adam keeps of each weight


@dataclass(frozen=True)
class RunCost:
    """What one run costs: FLOPs of training and of all exams, bytes in memory and on disk."""

    training: float
    exams: float
    memory: int
    disk: int


@dataclass(frozen=True)
class SweepCost:
    """What the runs of a file cost together, and the most that a single one of them needs."""

    runs: int
    training: float
    exams: float
    memory: int
    disk: int

    def hours(self, flops_per_second: float) -> float:
        """Return the hours of a device that sustains so many FLOPs a second."""
        return (self.training + self.exams) / flops_per_second / 3600


class Costs:
    """Finds what runs cost. What one method costs on one data set is measured once."""

    def __init__(self) -> None:
        self._known: dict[str, Cost] = {}

    def of_sweep(self, experiments: Iterable[Experiment]) -> SweepCost:
        """Return what all these runs cost together."""
        alike: dict[str, list[Experiment]] = {}
        for experiment in experiments:
            first_seed = replace(experiment, seed=1)  # other seeds cost the same
            alike.setdefault(json.dumps(first_seed.as_dict()), []).append(first_seed)
        found = [cost for same in alike.values() for cost in [self.of_run(same[0])] * len(same)]
        return SweepCost(
            runs=len(found),
            training=sum(run.training for run in found),
            exams=sum(run.exams for run in found),
            memory=max(run.memory for run in found),
            disk=max(run.disk for run in found),
        )

    def of_run(self, experiment: Experiment) -> RunCost:
        """Return what one run costs, without its data."""
        plan = RunPlan(experiment)
        cost = self._measured(experiment, plan)
        unmeasured = max(0, int(experiment.values()["memory_size"]) - MEASURED)
        held = cost.total_bytes + unmeasured * prod(plan.shape)
        trained = MOMENTS * plan.weights
        batch = int(experiment.values()["batch_size"]) * plan.activations
        return RunCost(
            training=plan.updates * self._flops_of_update(experiment, plan, cost),
            exams=plan.questions * plan.forward,
            memory=held + trained + batch,
            disk=KEPT * (held + trained),
        )

    def _measured(self, experiment: Experiment, plan: "RunPlan") -> Cost:
        """Return what a method costs, which depends neither on the stream nor on the seed."""
        few = min(MEASURED, int(experiment.values()["memory_size"]))
        settings = {**experiment.settings, "memory_size": few}
        alike = Experiment(
            method=experiment.method,
            dataset=experiment.dataset,
            stream="disjoint",
            settings={
                k: v for k, v in settings.items() if experiment.options().part(k) != "stream"
            },
        )
        key = f"{alike.method} {alike.dataset} {sorted(alike.settings.items())}"
        if key not in self._known:
            self._known[key] = cost_of(alike, plan.shape, plan.classes)
        return self._known[key]

    def _flops_of_update(self, experiment: Experiment, plan: "RunPlan", cost: Cost) -> float:
        """Return the mean FLOPs of an update; matched runs spend what their reference spends."""
        if experiment.match == "flops":
            return self._measured(reference(experiment), plan).flops
        base = float(experiment.values().get("base", 0))
        if not base:
            return cost.flops
        # Methods that freeze their first blocks train the whole network before that, as ER does.
        share = base if base < 1 else base / len(plan.labels)
        er = replace(experiment, method="er", settings={}, match="", to="")
        return share * self._measured(er, plan).flops + (1 - share) * cost.flops


class RunPlan:
    """What is known of a run before its data are there: how long it is and what is asked."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.facts = known_size(experiment)
        self.shape = self.facts.image_shape or (0, 0, 0)
        self.classes = self.facts.classes
        network = estimate(network_of(experiment, self.shape), self.shape)
        self.weights, self.activations = network.weights, network.activations
        self.forward = network.flops / BOTH_WAYS

    @cached_property
    def labels(self) -> Tensor:
        """The class of every sample of the stream, in the order of arrival."""
        data = blank(self.experiment.dataset, self.facts)
        return data.train.labels[self.experiment.schedule(data).order]

    @property
    def updates(self) -> float:
        """Updates of the whole run, at equal batches."""
        return len(self.labels) * float(self.experiment.values()["iterations"])

    @property
    def questions(self) -> int:
        """Test images that all exams ask about: at each exam those of the classes seen so far."""
        every, n = int(self.experiment.values()["every"]), len(self.labels)
        first = torch.full((self.classes,), n).scatter_reduce(
            0, self.labels, torch.arange(n), "amin"
        )
        seen = torch.searchsorted(first.sort().values, torch.arange(every, n + 1, every))
        return int(seen.sum()) * self.facts.test // self.classes


def known_size(experiment: Experiment) -> DatasetFacts:
    """Return the facts of an experiment's data set; InvalidSetting if its size is not known."""
    facts: DatasetFacts = DATASETS.entry(Name.read(experiment.dataset).kind).facts
    if not facts.train or facts.image_shape is None:
        raise InvalidSetting(
            f"what a run on {experiment.dataset} costs is not known before its data are there"
        )
    values = experiment.values()
    each, limit = int(values["per_class"]), int(values["limit"])
    train = min(each * facts.classes or facts.train, limit or facts.train, facts.train)
    asked = int(values["exam_per_class"]) * facts.classes or facts.test
    return replace(facts, train=train, test=min(asked, facts.test))


def blank(name: str, facts: DatasetFacts) -> Dataset:
    """Return a data set of this size in which every image is the same black one."""
    shape = facts.image_shape or (0, 0, 0)

    def split(n: int) -> Split:
        number = torch.arange(n)
        images = torch.zeros((), dtype=torch.uint8).expand(n, *shape)
        return Split(images, number % facts.classes, number * BUCKETS // n)

    names = tuple(str(c) for c in range(facts.classes))
    return Dataset(name, split(facts.train), split(facts.test), names, mean=(0.5,), std=(0.5,))
