"""Shared by all tests: one thread each, no surprises from hypothesis, small ready-made learners."""

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two test processes share two cores

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from children import Children
from earl.cli.app import app
from earl.cli.end import outcome
from earl.data.dataset import Dataset
from earl.data.sets import shapes
from earl.errors import InvalidSetting
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.learning.learner import Learner
from earl.learning.setting import Setting
from earl.nn.augment import Augment, View
from earl.nn.build import build
from earl.nn.onednn import require_bfloat16
from earl.nn.resnet import ResNet
from earl.randomness import Randomness
from small_networks import DIVIDED, ONE_BLOCK
from small_runs import finish

torch.set_num_threads(1)
settings.register_profile("earl", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("earl")


def pytest_collection_finish() -> None:
    """Have the garbage collector leave alone what lives until the end: tests, and all modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    """Four separable classes of 8-pixel images."""
    return shapes.load()


@pytest.fixture(scope="session")
def make(dataset: Dataset) -> Callable[..., Learner]:
    """Make a small learner by name; keywords of Setting and of the method may be given.

    So may the shape of its `network`, where one block is too little.
    """

    def make_learner(name: str, **given: object) -> Learner:
        shared = {k: given.pop(k) for k in list(given) if k in Setting.__dataclass_fields__}
        view = View(dataset.mean, dataset.std)
        augment = Augment(view=view, padding=1, flip=False, rand_augment=False)
        small = {"memory_size": 20, "batch_size": 8, "lr": 3e-3, "augment": augment}
        setting = Setting(image_shape=dataset.image_shape, view=view, **(small | shared))
        generator = Randomness(setting.seed).at(0, "backbone")
        usual = DIVIDED if name in ("memo", "remind", "nc-fscil") else ONE_BLOCK
        shape = given.pop("network", usual)
        backbone = build(lambda: ResNet(**shape), generator)
        if "etf" in name or name.startswith("earl"):
            given = {"d": 15, "hidden": 16, **given}
        if name == "oddl":
            given = {"latent": 8, "vae_hidden": 32, "vae_lr": 3e-3, "threshold": 0.5, **given}
        if name == "ranpac":
            given = {"projected": 200, **given}
        if name in ("remind", "nc-fscil"):
            given = {"base": 20, "codebooks": 2, **given}
        return METHODS[name](backbone, setting, **given)

    return make_learner


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of this test alone for data sets and for their decoded copies."""
    monkeypatch.setenv("EARL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EARL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Carry out a command line in this process; return its exit code, stdout and stderr."""

    def carry_out(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = outcome(app, [str(word) for word in words])
        return (code, *capsys.readouterr())

    return carry_out


@pytest.fixture(scope="session")
def bfloat16() -> None:
    """Skip what calculates with bfloat16, and say why, where this CPU would not survive it."""
    try:
        require_bfloat16()
    except InvalidSetting as refused:
        pytest.skip(str(refused))


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """Processes of their own that need no time to begin."""
    children = Children()
    yield children
    children.end()


@pytest.fixture(scope="session")
def few_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four finished runs of 40 samples: two methods, two seeds. Do not change it."""
    folder = tmp_path_factory.mktemp("few")
    for method in ("er", "earl"):
        for seed in (1, 2):
            experiment = Experiment(
                method=method,
                dataset="shapes",
                stream="disjoint",
                seed=seed,
                settings={"per_class": 10, "every": 10},
            )
            finish(RunDirectory(folder / experiment.path(), experiment))
    return folder
