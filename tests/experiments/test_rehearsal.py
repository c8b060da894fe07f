"""What cannot be run is refused before any data are touched."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from earl.errors import EarlError, TooLarge
from earl.experiments.catalogue import DATASETS, METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.loading import load_data
from earl.experiments.prepare import rehearse

CIFAR = ["run", "--method", "earl", "--dataset", "cifar10"]
Typed = Callable[..., tuple[int, str, str]]
OWN = ["run", "--method", "earl", "--dataset", "folder:photos"]


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place where loading, or even looking for data, is a failure of the test."""
    monkeypatch.chdir(tmp_path)
    for name in ("cifar10", "folder"):
        entry = DATASETS.entry(name)
        module, _, function = str(entry.target).partition(":")
        monkeypatch.setattr(f"{module}.{function}", lambda source: pytest.fail("data are touched"))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "k=0"], "k = 0"),
        (["--set", "negative=upside-down"], "negative"),
        (["--set", "memory_size=999999999999"], "memory_size"),
        (["--set", "width=9999999"], "width"),
        (["--set", "hidden=99999999999"], "hidden"),
        (
            ["--match", "bytes", "--to", "er", "--set", "depth=4", "--set", "width=4"],
            "nothing is left for a memory",
        ),
        (["--out", "/proc/no/place"], "/proc"),
    ],
)
def test_of_a_known_data_set(words: list[str], said: str, no_data: Path, typed: Typed) -> None:
    code, _, err = typed(*CIFAR, *words)
    assert code == 1 and said in err and not list(no_data.iterdir())


@pytest.mark.parametrize("setting", ["k=0", "negative=upside-down", "hidden=99999999999"])
def test_of_ones_own_data(setting: str, no_data: Path, typed: Typed) -> None:
    code, _, err = typed(*OWN, "--set", setting)
    assert code == 1 and setting.partition("=")[0] in err


@pytest.mark.parametrize("name", ["digits", "shapes"])
def test_the_shapes_that_are_known_are_those_of_the_data(name: str) -> None:
    facts, data = DATASETS.entry(name).facts, load_data(name)
    assert (facts.image_shape, facts.classes) == (data.image_shape, len(data.class_names))


@pytest.mark.parametrize("method", METHODS.names())
def test_what_can_be_run_passes_and_one_setting_makes_the_difference(method: str) -> None:
    experiment = Experiment(method=method, dataset="digits", stream="disjoint")
    rehearse(experiment)
    too_many = {"memory_size": 10**15}  # which is refused only where the learner is made
    with pytest.raises(TooLarge, match="memory_size"):
        rehearse(replace(experiment, settings=too_many))


def test_a_constructor_that_refuses_is_heard() -> None:
    experiment = Experiment(method="remind", dataset="digits", stream="disjoint")
    with pytest.raises(EarlError, match="blocks"):
        rehearse(replace(experiment, settings={"frozen": 40}))
    rehearse(experiment)
