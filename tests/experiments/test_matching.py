"""What methods cost, against the formulas of their papers, and comparisons at equal budgets."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from earl.data.dataset import Dataset
from earl.errors import InvalidSetting, UnknownName
from earl.evaluation.history import Evaluation
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.matching import Cost, cost_of, reference
from earl.experiments.runs.saves import beyond_budget
from earl.learning.bytes_held import bytes_held
from earl.learning.learner import Learner
from earl.nn.resnet import ResNet

Make = Callable[..., Learner]
P = 11_168_832  # parameters of a ResNet-18 for small images, without a classifier
HEAD = 32 * 513 * 4  # bytes of a growing classifier, rows ahead included


@cache
def cost(method: str, side: int = 32, **settings: float) -> Cost:
    """Return what a method costs on images like CIFAR-10's, of which smaller ones may be given."""
    experiment = Experiment(method=method, dataset="cifar10", stream="disjoint", settings=settings)
    return cost_of(experiment, (3, side, side), 10)


@pytest.fixture(scope="module")
def er() -> Cost:
    return cost("er")


def test_the_parameters_are_those_of_the_paper_s_network() -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in ResNet().parameters()) == P


def test_er_trains_a_batch_and_keeps_images(er: Cost) -> None:
    assert er.flops == pytest.approx(16 * 3.329e9, rel=0.001)  # forward and backward of ResNet-18
    assert er.bytes["images"] == 500 * 3 * 32 * 32
    assert er.bytes["waiting"] == 8 * 3 * 32 * 32
    assert er.bytes["network"] == pytest.approx(4 * P + HEAD, rel=0.001)  # and statistics


# Compute of an update beside ER's that follows from the number of passes, on any network.
PASSES = {
    "er-memory-only": 1,
    "der++": 1,
    "ewc": 1,
    "er-mir": (4.5 * 16 + 2 * 50) / (3 * 16),
    "scr": 2,
    "x-der": 3,
}


@pytest.mark.parametrize(("method", "ratio"), PASSES.items())
def test_compute_follows_the_formula(method: str, ratio: float) -> None:
    small = {"width": 16, "depth": 6, "side": 8}
    assert cost(method, **small).flops == pytest.approx(ratio * cost("er", **small).flops, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "ratio"), [("earl", 1.028), ("memo", 1.161)])
def test_compute_of_larger_networks(method: str, ratio: float, er: Cost) -> None:
    assert cost(method).flops == pytest.approx(ratio * er.flops, rel=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS.names())
def test_the_compute_that_is_listed_is_what_is_measured(method: str, er: Cost) -> None:
    listed = METHODS.entry(method).facts.compute  # with two decimals
    assert cost(method).flops / er.flops == pytest.approx(listed, abs=0.0055)


MLP = 4 * (512 * 4096 + 512 * 2048 + 2048**2 + 2048 * 4096)  # A and R of the projection, no biases
EXTRA = {  # bytes beside ER's, for ten classes after one boundary
    "earl": MLP + 4 * 10 * 10 * 4096,
    "vanilla-etf": MLP,
    "ewc": 3 * 4 * P,  # the running Fisher, that of the last boundary, and its weights
    "scr": 4 * (512 * 513 + 128 * 513) - HEAD,
    "memo": 4 * 8_393_728 + HEAD,
    "polrs": 2 * (4 * P + HEAD),
}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "extra"), EXTRA.items())
def test_bytes_follow_the_formula(method: str, extra: int, er: Cost) -> None:
    more = cost(method).total_bytes - er.total_bytes
    assert more == pytest.approx(extra, rel=0.01)


@pytest.mark.parametrize(
    ("method", "dataset", "classes", "flops"),
    [
        ("earl", "cifar10", 10, 3 * 4096 * 100 + 15 * 100),
        ("earl", "imagenet-200", 200, 24_606_000),  # 3dN + kN with d = 4096, N = 2 000, k = 15
        ("earl-no-pdt", "digits", 10, 3 * 64 * 100 + 15 * 100),
        ("earl-no-rc", "cifar10", 10, 0),
        ("er", "cifar10", 10, 0),
    ],
)
def test_residual_correction_costs_what_the_paper_s_formula_says(
    method: str, dataset: str, classes: int, flops: int
) -> None:
    settings = {"width": 4, "depth": 8, "batch_size": 4, "iterations": 1.0}
    settings |= {"hidden": 0} if method != "er" else {}
    run = Experiment(method=method, dataset=dataset, stream="disjoint", settings=settings)
    cost = cost_of(run, (3, 16, 16), classes)
    assert cost.correction == flops
    assert bool(cost.forward) == (method != "er")


def test_stored_logits_are_counted_by_the_classes_they_know() -> None:
    small = {"width": 4, "depth": 4, "side": 8}
    derpp, xder = cost("der++", **small), cost("x-der", **small)
    for stored in (derpp, xder):
        assert stored.bytes["logits"] == 4 * 500 * (10 + 10)  # ten rows are of classes to come
    assert xder.bytes["replays"] == 8 * 500


def test_a_learner_without_a_correction_keeps_no_features(make: Make, dataset: Dataset) -> None:
    for name, held in (("earl", True), ("vanilla-etf", False)):
        learner = make(name)
        learner.observe(dataset.train.images[:10], dataset.train.labels[:10])
        assert ("residuals" in bytes_held(learner)) == held


# ---- equal budgets


def shapes_run(method: str, iterations: float = 1, **given: object) -> Experiment:
    settings = {"per_class": 10, "every": 40, "batch_size": 4}
    settings |= {"iterations": iterations} if iterations != 1 else {}
    return Experiment(
        method=method, dataset="shapes", stream="disjoint", settings=settings, **given
    )


@cache
def total_flops(method: str, **given: object) -> tuple[int, int]:
    """Return the FLOPs of a whole stream, and those of its dearest update."""
    experiment = shapes_run(method, **given)
    if method == "oddl":  # whose checks come with samples: those of a tiny memory cost too much
        experiment = replace(experiment, settings={**experiment.settings, "check_every": 1.0})
    built = experiment.build()
    learner, dearest = built.learner, 0
    for x, y in built.stream:
        learner.observe(x, y)
        dearest = max(dearest, learner.work.last)
    learner.finish()
    return learner.work.flops, max(dearest, learner.work.last)


SOME = ("er", "earl", "er-mir", "memo", "remind")


@pytest.mark.parametrize(
    "method",
    [pytest.param(m, marks=() if m in SOME else pytest.mark.slow) for m in METHODS.names()],
)
def test_a_run_matched_in_flops_spends_what_er_spends_to_one_update(method: str) -> None:
    er, one_of_er = total_flops("er")
    flops, one = total_flops(method, match="flops", to="er")
    assert abs(flops - er) <= one + one_of_er  # ER's own first batches are not full


@pytest.mark.parametrize("iterations", [0.5, 3])
def test_what_a_run_is_matched_to_is_its_reference_with_all_its_iterations(
    iterations: float,
) -> None:
    er, one_of_er = total_flops("er", iterations=iterations)
    flops, one = total_flops("scr", iterations=iterations, match="flops", to="er")
    assert abs(flops - er) <= one + one_of_er * max(1, iterations)  # its first batches, not full
    assert abs(flops - total_flops("er")[0]) > 5 * one  # which is what one iteration would spend


@pytest.mark.parametrize("method", ["scr", "er"])
def test_a_run_matched_in_bytes_holds_what_its_reference_holds(method: str) -> None:
    built = shapes_run(method, match="bytes", to="memo").build()
    memo = shapes_run("memo").build().learner
    theirs = reference(shapes_run(method, match="bytes", to="memo"))
    assert theirs.method == "memo" and theirs.settings == shapes_run("memo").settings
    x, y = built.dataset.train.images[:40], built.dataset.train.labels[:40] // 20
    for learner in (built.learner, memo):
        learner.observe(x[:20], y[:20])
        learner.end_task()
        learner.observe(x[20:], y[20:])
    assert built.learner.setting.memory_size == built.budget["memory_size"] > 20
    held = [sum(bytes_held(learner).values()) for learner in (built.learner, memo)]
    assert held[0] == pytest.approx(held[1], abs=3 * 8 * 8 + 8, rel=0.01)


def test_a_budget_that_is_too_small_is_an_error_that_tells_the_way_out() -> None:
    with pytest.raises(InvalidSetting, match="Match er to memo instead"):
        shapes_run("memo", match="bytes", to="er").build()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"match": "flops"}, InvalidSetting),
        ({"to": "er"}, InvalidSetting),
        ({"match": "time", "to": "er"}, InvalidSetting),
        ({"match": "flops", "to": "err"}, UnknownName),
    ],
)
def test_half_a_match_is_refused(given: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        shapes_run("earl", **given)


def test_a_matched_run_has_its_own_directory_and_record() -> None:
    plain, matched = shapes_run("earl"), shapes_run("earl", match="flops", to="er")
    assert plain.path() != matched.path() and "flops=as-er" in str(matched.path())
    assert Experiment.from_dict(matched.as_dict()) == matched
    assert Experiment.from_dict(plain.as_dict()) == plain
    assert matched.command()[-4:] == ["--match", "flops", "--to", "er"]


def test_the_reference_keeps_shared_settings_and_drops_those_of_the_method() -> None:
    settings = {"k": 3, "width": 4, "memory_size": 30, "tasks": 2}
    experiment = replace(shapes_run("earl", match="flops", to="er"), settings=settings)
    assert reference(experiment).settings == {"width": 4, "memory_size": 30, "tasks": 2}


@pytest.mark.parametrize(("flops", "said"), [(1_000, []), (1_040, []), (1_400, ["1.40"])])
def test_a_run_that_cost_more_than_its_budget_says_so(flops: int, said: list[str]) -> None:
    last = Evaluation(100, 0, {}, {}, 0, 100, {"flops": flops, "updates": 50})
    notes = [f"not matched: it cost {times} times the FLOPs of its budget" for times in said]
    assert beyond_budget(last, {"flops": 10.0}) == notes
    assert beyond_budget(last, {}) == []
