"""Online continual learning: images arrive once with labels, questions come at any moment."""

TYPE_CHECKING = False  # type checkers take it for true; `typing` need not be imported for it

__version__ = "0.1.0.dev0"

# name -> module; imported when first used, so that `import earl` does not import torch
_WHERE = {
    "Augment": "earl.transforms",
    "DATASETS": "earl.catalogue",
    "Dataset": "earl.datasets.dataset",
    "EARL": "earl.methods.earl",
    "EarlError": "earl.errors",
    "Evaluation": "earl.history",
    "Exam": "earl.run",
    "Experiment": "earl.experiment",
    "FIGURES": "earl.catalogue",
    "Learner": "earl.learner",
    "METHODS": "earl.catalogue",
    "METRICS": "earl.catalogue",
    "Memory": "earl.memory",
    "Moment": "earl.run",
    "PROBES": "earl.catalogue",
    "ResNet": "earl.networks",
    "RunDirectory": "earl.rundirectory",
    "STREAMS": "earl.catalogue",
    "Schedule": "earl.streams",
    "Setting": "earl.learner",
    "SimplexETF": "earl.etf",
    "Split": "earl.datasets.dataset",
    "Stream": "earl.streams",
    "UNKNOWN": "earl.learner",
    "View": "earl.transforms",
    "check_method": "earl.contract",
    "learn_online": "earl.run",
}

if TYPE_CHECKING:
    from earl.catalogue import DATASETS, FIGURES, METHODS, METRICS, PROBES, STREAMS
    from earl.contract import check_method
    from earl.datasets.dataset import Dataset, Split
    from earl.errors import EarlError
    from earl.etf import SimplexETF
    from earl.experiment import Experiment
    from earl.history import Evaluation
    from earl.learner import UNKNOWN, Learner, Setting
    from earl.memory import Memory
    from earl.methods.earl import EARL
    from earl.networks import ResNet
    from earl.run import Exam, Moment, learn_online
    from earl.rundirectory import RunDirectory
    from earl.streams import Schedule, Stream
    from earl.transforms import Augment, View

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
    "Dataset",
    "EarlError",
    "Evaluation",
    "Exam",
    "Experiment",
    "Learner",
    "Memory",
    "Moment",
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
