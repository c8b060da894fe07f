"""Learners of experiments: made for images of a shape, with or without a data set."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from earl.experiments.catalogue import METHODS
from earl.experiments.estimate import blamed, check_sizes, estimate
from earl.experiments.experiment import Experiment
from earl.experiments.machine import threads_for
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.nn.augment import Augment, View
from earl.nn.build import build, resnet_for
from earl.nn.ranks import ALONE, Alone
from earl.nn.resnet import ResNet
from earl.randomness import Randomness

Shape = tuple[int, int, int]  # channels, height and width


def make_learner(
    experiment: Experiment,
    image_shape: Shape,
    view: View,
    samples: int,
    *,
    device: str = "cpu",
    ranks: Alone = ALONE,
    budget: Mapping[str, float] | None = None,
) -> Learner:
    """Return a fresh learner for images of this shape and a stream of so many samples."""
    setting = Setting(
        image_shape=image_shape,
        view=view,
        augment=Augment(view=view, **experiment.of("augment")),
        seed=experiment.seed,
        device=device,
        samples=samples,
        ranks=ranks,
        **(experiment.of("setting") | dict(budget or {})),
    )
    with blamed(experiment.settings, experiment.usual):
        make = network_of(experiment, image_shape)
        backbone = build(make, Randomness(experiment.seed).at(0, "backbone"))
        of_method = experiment.of("method")
        return METHODS[experiment.method](backbone.to(device), setting, **of_method)


def learner_without_data(experiment: Experiment, shape: Shape, samples: int) -> Learner:
    """Return an experiment's learner for images of this shape; no data set is needed."""
    # Counts do not depend on the precision, and this CPU may not take that of a run on a GPU.
    experiment = replace(experiment, settings={**experiment.settings, "precision": "float32"})
    grey = (0.5,) * shape[0]
    return make_learner(experiment, shape, View(grey, grey), samples)


def network_of(experiment: Experiment, image_shape: Shape) -> Callable[[], ResNet]:
    """Return what makes the backbone for images of this shape."""
    options = experiment.of("network")
    return lambda: resnet_for(image_shape, **options)


def refuse_too_large(experiment: Experiment, image_shape: Shape, classes: int) -> None:
    """Raise TooLarge if the network, the memory or a batch is more than this machine has."""
    network = estimate(network_of(experiment, image_shape), image_shape)
    check_sizes(experiment.values(), network, image_shape, classes=classes)


def threads_worth(experiment: Experiment, image_shape: Shape) -> int:
    """Return how many threads this experiment is worth here."""
    network = estimate(network_of(experiment, image_shape), image_shape)
    return threads_for(int(experiment.values()["batch_size"]) * network.flops)
