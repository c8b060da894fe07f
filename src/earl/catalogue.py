"""Table of contents: every method, data set, stream, metric and probe by name.

Objects are named by where they live and imported when asked for: `earl list` needs no torch.
Your own go in from outside with the same registries: `@METHODS.register("mine")`.
"""

from typing import TYPE_CHECKING

from earl.registry import Registry

if TYPE_CHECKING:  # types only: importing these would import torch
    from collections.abc import Callable

    from earl.datasets.dataset import Dataset
    from earl.history import Metric
    from earl.learner import Learner
    from earl.run import Probe
    from earl.streams import Schedule

METHODS: "Registry[Callable[..., Learner]]" = Registry("method")
METHODS.list("earl", "earl.methods.earl:EARL", "fixed ETF, preparatory data, residual correction")
METHODS.list("vanilla-etf", "earl.methods.earl:vanilla_etf", "EARL without either of its additions")
METHODS.list("earl-no-rc", "earl.methods.earl:earl_no_rc", "EARL without residual correction")
METHODS.list("earl-no-pdt", "earl.methods.earl:earl_no_pdt", "EARL without preparatory data")
METHODS.list("er", "earl.methods.er:ER", "experience replay from a reservoir")
METHODS.list(
    "er-memory-only",
    "earl.methods.er_memory_only:MemoryOnlyER",
    "control: ER trained like EARL, from a balanced memory alone",
)

DATASETS: "Registry[Callable[..., Dataset]]" = Registry("data set")
DATASETS.list(
    "digits", "earl.datasets.digits:load", "1 797 handwritten digits, 16 px; come with scikit-learn"
)
DATASETS.list("shapes", "earl.datasets.shapes:load", "synthetic patterns, 8 px; for tests")

STREAMS: "Registry[Callable[..., Schedule]]" = Registry("stream")
STREAMS.list("disjoint", "earl.streams:disjoint", "tasks of different classes, one after the other")
STREAMS.list("gaussian", "earl.streams:gaussian", "classes come and go on a Gaussian schedule")

METRICS: "Registry[Metric]" = Registry("metric")
METRICS.list("A_AUC", "earl.metrics:a_auc", "mean accuracy over all evaluations of the stream")
METRICS.list("A_last", "earl.metrics:a_last", "accuracy at the end of the stream")
METRICS.list("AOA", "earl.metrics:aoa", "online accuracy: predict each sample, then train on it")
METRICS.list("forgetting", "earl.metrics:forgetting", "mean drop from a class's best accuracy")

PROBES: "Registry[Probe]" = Registry("probe")
PROBES.list("collapse", "earl.probes:collapse", "NC1, NC2 and NC3 of test features")
