"""Online continual learning: images arrive once with labels, questions come at any moment."""

TYPE_CHECKING = False  # type checkers take it for true; `typing` need not be imported for it

__version__ = "0.1.0.dev0"

# name -> module; imported when first used, so that `import earl` does not import torch
_WHERE = {
    "Augment": "earl.nn.augment",
    "Client": "earl.service.client",
    "DATASETS": "earl.experiments.catalogue",
    "Dataset": "earl.data.dataset",
    "EARL": "earl.methods.earl",
    "EARLClassifier": "earl.estimator",
    "EarlError": "earl.errors",
    "Evaluation": "earl.evaluation.history",
    "Exam": "earl.evaluation.loop",
    "Experiment": "earl.experiments.experiment",
    "FIGURES": "earl.experiments.catalogue",
    "Learner": "earl.learning.learner",
    "METHODS": "earl.experiments.catalogue",
    "METRICS": "earl.experiments.catalogue",
    "Memory": "earl.learning.memory",
    "Moment": "earl.evaluation.loop",
    "PROBES": "earl.experiments.catalogue",
    "Randomness": "earl.randomness",
    "ResNet": "earl.nn.resnet",
    "RunDirectory": "earl.experiments.runs.directory",
    "STREAMS": "earl.experiments.catalogue",
    "Schedule": "earl.data.streams",
    "Setting": "earl.learning.setting",
    "SimplexETF": "earl.nn.etf",
    "Split": "earl.data.dataset",
    "Stream": "earl.data.streams",
    "UNKNOWN": "earl.learning.learner",
    "View": "earl.nn.augment",
    "check_method": "earl.experiments.contract",
    "learn_online": "earl.evaluation.loop",
}

if TYPE_CHECKING:
    from earl.data.dataset import Dataset, Split
    from earl.data.streams import Schedule, Stream
    from earl.errors import EarlError
    from earl.estimator import EARLClassifier
    from earl.evaluation.history import Evaluation
    from earl.evaluation.loop import Exam, Moment, learn_online
    from earl.experiments.catalogue import DATASETS, FIGURES, METHODS, METRICS, PROBES, STREAMS
    from earl.experiments.contract import check_method
    from earl.experiments.experiment import Experiment
    from earl.experiments.runs.directory import RunDirectory
    from earl.learning.learner import UNKNOWN, Learner
    from earl.learning.memory import Memory
    from earl.learning.setting import Setting
    from earl.methods.earl import EARL
    from earl.nn.augment import Augment, View
    from earl.nn.etf import SimplexETF
    from earl.nn.resnet import ResNet
    from earl.randomness import Randomness
    from earl.service.client import Client

__all__ = [
    "DATASETS",
    "EARL",
    "FIGURES",
    "METHODS",
    "METRICS",
    "PROBES",
    "STREAMS",
    "UNKNOWN",
    "Augment",
    "Client",
    "Dataset",
    "EARLClassifier",
    "EarlError",
    "Evaluation",
    "Exam",
    "Experiment",
    "Learner",
    "Memory",
    "Moment",
    "Randomness",
    "ResNet",
    "RunDirectory",
    "Schedule",
    "Setting",
    "SimplexETF",
    "Split",
    "Stream",
    "View",
    "check_method",
    "learn_online",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'earl' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
