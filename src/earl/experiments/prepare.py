"""From an experiment to the objects of a run; and a trial of it before any data are touched."""

from collections.abc import Mapping
from dataclasses import dataclass

from earl.data.dataset import Dataset
from earl.data.streams import Stream
from earl.evaluation.loop import Exam, Probe
from earl.experiments.catalogue import DATASETS, PROBES
from earl.experiments.experiment import Experiment
from earl.experiments.learners import learner_without_data, make_learner, refuse_too_large
from earl.experiments.matching import matched
from earl.experiments.names import Name
from earl.learning.encoded import Encoded
from earl.learning.learner import Learner
from earl.nn.augment import View
from earl.nn.ranks import ALONE, Alone

UNKNOWN_FEATURES = 64
UNKNOWN_SIDE, UNKNOWN_CLASSES = 64, 2  # shape assumed for the user's own data until they are loaded
LONG = 10**9  # a length of a stream in which no setting comes too late


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """The objects of one run."""

    dataset: Dataset
    learner: Learner
    stream: Stream
    exam: Exam
    probes: Mapping[str, Probe]
    budget: Mapping[str, float]  # settings that follow from a match
    every: int  # samples between two evaluations


def prepare(
    experiment: Experiment, dataset: Dataset, device: str = "cpu", ranks: Alone = ALONE
) -> PreparedRun:
    """Make the stream, the exam and a fresh learner for an experiment on its data set."""
    shape, classes = dataset.image_shape, len(dataset.class_names)
    refuse_too_large(experiment, shape, classes)
    schedule = experiment.schedule(dataset)
    budget = matched(experiment, shape, classes, tasks=len(schedule.boundaries) + 1)
    view = View(dataset.mean, dataset.std)
    samples = len(schedule.order)
    learner = make_learner(
        experiment, shape, view, samples, device=device, ranks=ranks, budget=budget
    )
    if isinstance(learner, Encoded):
        learner.encode.remembered += len(dataset.test)  # every exam asks about the same images
    return PreparedRun(
        dataset=dataset,
        learner=learner,
        stream=Stream(dataset.train, schedule),
        exam=Exam(dataset.test, ranks=ranks),
        probes={name: PROBES[name] for name in experiment.probes},
        budget=budget,
        every=experiment.of("run")["every"],
    )


def rehearse(experiment: Experiment) -> None:
    """Make the learner once without data, so that a wrong setting or budget is refused at once.

    The shape of the images is the one that the data set is known to have. That of the user's own
    data is not known before they are loaded: a usual shape is assumed instead, and a budget of
    bytes, which depends on the shape, is checked later.
    """
    facts = DATASETS.entry(Name.read(experiment.dataset).kind).facts
    shape, classes = facts.image_shape, facts.classes
    side = int(experiment.values()["image_size"])
    if experiment.embedded:
        shape = (UNKNOWN_FEATURES, 1, 1)
    elif shape is None or side:
        channels = shape[0] if shape else 3
        shape = (channels, side or UNKNOWN_SIDE, side or UNKNOWN_SIDE)
    refuse_too_large(experiment, shape, classes or UNKNOWN_CLASSES)
    if experiment.match == "bytes" and classes:
        matched(experiment, shape, classes, tasks=int(experiment.values().get("tasks", 1)))
    learner_without_data(experiment, shape, samples=LONG)
