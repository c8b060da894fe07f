"""What an experiment takes is known before it is allocated, and too much of it is refused."""

import importlib
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from earl.errors import TooLarge
from earl.experiments.estimate import estimate
from earl.experiments.experiment import Experiment
from earl.experiments.learners import learner_without_data
from earl.learning.work import Pass, flops
from earl.nn import room as room_module
from earl.nn.backbones.efficientnet import EfficientNetLite0
from earl.nn.build import TRAINED, build
from earl.nn.resnet import ResNet
from earl.nn.room import readable, require_room, room
from earl.randomness import Randomness

NETWORKS = [(8, 8, (1, 16, 16)), (18, 4, (3, 32, 32)), (34, 2, (3, 64, 64))]


@pytest.mark.parametrize(("depth", "width", "shape"), NETWORKS)
def test_an_estimate_has_the_bytes_and_the_flops_of_the_real_network(
    depth: int, width: int, shape: tuple[int, int, int]
) -> None:
    make = partial(ResNet, depth=depth, width=width, channels=shape[0])
    found, real = estimate(make, shape), build(make, Randomness(1).at(0, "backbone"))
    assert found.weights == sum(p.nbytes for p in real.parameters())
    assert found.flops == pytest.approx(flops(Pass(real, shape)), rel=0.03)


def test_layers_that_pad_by_themselves_and_divide_their_channels_are_counted_as_they_are() -> None:
    shape, real = (3, 33, 34), build(EfficientNetLite0, Randomness(1).at(0, "backbone"))
    counted: list[int] = []

    def count(part: nn.Conv2d, _: object, out: torch.Tensor) -> None:
        counted.append(2 * out.numel() * part.weight[0].numel())

    for part in real.modules():
        if isinstance(part, nn.Conv2d):
            part.register_forward_hook(count)
    real.eval()(torch.zeros(1, *shape))
    assert estimate(EfficientNetLite0, shape).flops == 3 * sum(counted)  # both ways


def test_activations_are_what_autograd_keeps_of_convolutions_and_norms() -> None:
    """Count the storages that a real pass saves for the way back, each once."""
    network = build(partial(ResNet, depth=8, width=8), Randomness(1).at(0, "backbone"))
    kept: dict[int, int] = {}
    x = torch.zeros(4, 3, 16, 16)
    weights = {p.untyped_storage().data_ptr() for p in network.parameters()}

    def pack(t: torch.Tensor) -> torch.Tensor:
        if t.untyped_storage().data_ptr() not in weights and t.dim() == 4:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        network.train()(x)
    found = estimate(partial(ResNet, depth=8, width=8), (3, 16, 16)).activations * len(x)
    assert 0.5 * found <= sum(kept.values()) <= 1.5 * found


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory_size": 10**12}, "memory_size = 1000000000000: so many images would take 192 TB"),
        ({"batch_size": 10**9}, "batch_size = 1000000000: to train on so many images"),
        ({"width": 50_000}, "width = 50000, depth = 8: the network in training"),
        ({"hidden": 10**6}, "hidden = 1000000: Projection of the network in training"),
        ({"d": 10**6, "hidden": 10**6}, "d = 1000000, hidden = 1000000: Projection"),
        ({"pairs_per_class": 10**9}, "pairs_per_class = 1000000000: so many features of d = 16"),
        ({"pairs_per_class": 10**10, "d": 1}, "10000000000: so many features of d = 3"),
        ({"pairs_per_class": 10**10, "d": 1, "growth": False}, "so many features of d = 1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_before_it_is_allocated(
    settings: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing on the CPU may have more than a megabyte by then."""
    largest = 0
    empty = nn.Module.to_empty

    def watch(module: nn.Module, **where: object) -> nn.Module:
        nonlocal largest
        largest = max(largest, sum(p.nbytes for p in module.parameters()))
        return empty(module, **where)  # type: ignore[arg-type]

    monkeypatch.setattr(nn.Module, "to_empty", watch)
    experiment = Experiment(method="earl", dataset="shapes", stream="disjoint", settings=settings)
    with pytest.raises(TooLarge, match=message) as error:
        experiment.build()
    assert "\n" not in str(error.value) and " here" in str(error.value) and largest < 1e6


def test_without_the_check_as_much_would_be_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a limit that nothing reaches lets `build` go on to the allocation."""
    monkeypatch.setattr(room_module, "room", lambda: None)
    asked: list[nn.Module] = []
    build = importlib.import_module("earl.nn.build")  # the package has a function of that name
    monkeypatch.setattr(build, "allocate", asked.append)
    settings = {"width": 50_000}
    experiment = Experiment(method="er", dataset="shapes", stream="disjoint", settings=settings)
    with pytest.raises((AttributeError, NotImplementedError, TypeError, RuntimeError)):
        experiment.build()
    assert asked


def test_a_budget_that_is_matched_is_checked_before_it_is_measured() -> None:
    given = {"batch_size": 10**9}
    experiment = Experiment(
        method="earl", dataset="shapes", stream="disjoint", settings=given, match="flops", to="er"
    )
    with pytest.raises(TooLarge, match="batch_size = 1000000000"):
        experiment.build()


def test_the_room_is_the_least_of_machine_and_container(tmp_path: Path) -> None:
    machine = room(limits=())
    assert machine is None or machine > 1e8
    (tmp_path / "max").write_text("max\n")
    assert room(limits=(tmp_path / "max", tmp_path / "nothing")) == machine
    (tmp_path / "limit").write_text("123456789\n")
    assert room(limits=(tmp_path / "limit",)) == 123456789


def test_what_just_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "room", lambda: 1000)
    require_room(1000, "this")
    with pytest.raises(TooLarge, match="this would take 1 kB, and there are 1 kB here"):
        require_room(1001, "this")
    monkeypatch.setattr(room_module, "room", lambda: None)  # nobody knows
    require_room(10**30, "this")


def test_a_network_is_counted_with_gradients_and_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4 * (10 * 10 + 10)
    monkeypatch.setattr(room_module, "room", lambda: TRAINED * size)
    build(partial(nn.Linear, 10, 10), Randomness(1).at(0, "x"))
    monkeypatch.setattr(room_module, "room", lambda: TRAINED * size - 1)
    with pytest.raises(TooLarge, match="Linear of the network in training"):
        build(partial(nn.Linear, 10, 10), Randomness(1).at(0, "x"))


def test_usual_experiments_fit_a_small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "room", lambda: 4 * 10**9)
    for method in ("er", "earl"):
        experiment = Experiment(method=method, dataset="cifar10", stream="disjoint")
        assert learner_without_data(experiment, (3, 32, 32), 1) is not None


def test_bytes_are_readable() -> None:
    assert [readable(n) for n in (0, 999, 1000, 25_300_000_000)] == [
        *("0 bytes", "999 bytes", "1 kB", "25.3 GB")
    ]
    assert readable(10**30) == "1e+15 PB"
