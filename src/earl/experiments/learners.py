"""Learners of experiments: made for images of a shape, with or without a data set."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from torch import nn

from earl.experiments.catalogue import METHODS
from earl.experiments.estimate import blamed, check_sizes, estimate
from earl.experiments.experiment import Experiment
from earl.experiments.machine import threads_for
from earl.experiments.networks import chosen_backbone, makes_network
from earl.learning.encoded import Encoded
from earl.learning.encoder import Encoder, on_features
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.nn.augment import Augment, View
from earl.nn.backbones import SCRATCH, halves, open_backbone
from earl.nn.build import build
from earl.nn.ranks import ALONE, Alone
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
    name, frozen = chosen_backbone(experiment.of("network"), experiment.embedded)
    opened = None if experiment.embedded or name == SCRATCH else open_backbone(name)
    view = view if opened is None else opened.view
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
    method = partial(METHODS[experiment.method], **experiment.of("method"))
    with blamed(experiment.settings, experiment.usual):
        if experiment.embedded:
            return method(nn.Flatten(), on_features(setting, image_shape))
        if opened is None:
            make = network_of(experiment, image_shape)
            network: nn.Module = build(make, Randomness(experiment.seed).at(0, "backbone"))
            return method(network.to(device), setting)
        if frozen == "front":
            front, rest = halves(opened.network)
            encode = Encoder(front, setting, name=f"{name}, front", maps=True)
            return Encoded(encode, method, rest.to(device))
        if frozen:
            return Encoded(Encoder(opened.network, setting, name=name), method)
        return method(opened.network.to(device), setting)


def learner_without_data(experiment: Experiment, shape: Shape, samples: int) -> Learner:
    """Return an experiment's learner for images of this shape; no data set is needed."""
    # Counts do not depend on the precision, and this CPU may not take that of a run on a GPU.
    experiment = replace(experiment, settings={**experiment.settings, "precision": "float32"})
    grey = (0.5,) * shape[0]
    return make_learner(experiment, shape, View(grey, grey), samples)


def network_of(experiment: Experiment, image_shape: Shape) -> Callable[[], nn.Module]:
    """Return what makes the network that learns, for images of this shape."""
    return makes_network(experiment.of("network"), image_shape, experiment.embedded)


def refuse_too_large(experiment: Experiment, image_shape: Shape, classes: int) -> None:
    """Raise TooLarge if the network, the memory or a batch is more than this machine has."""
    network = estimate(network_of(experiment, image_shape), image_shape)
    check_sizes(experiment.values(), network, image_shape, classes=classes)


def threads_worth(experiment: Experiment, image_shape: Shape) -> int:
    """Return how many threads this experiment is worth here."""
    network = estimate(network_of(experiment, image_shape), image_shape)
    return threads_for(int(experiment.values()["batch_size"]) * network.flops)
