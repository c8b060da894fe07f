"""What a sweep is said to cost, beside what runs of it really cost."""

import json
from collections.abc import Callable

import pytest

from earl.errors import InvalidSetting
from earl.evaluation.loop import learn_online
from earl.experiments.experiment import Experiment
from earl.experiments.sweeps.cost import Costs, RunPlan

SMALL = {"depth": 4, "width": 4, "per_class": 20, "every": 40}


@pytest.mark.parametrize(
    ("method", "stream"),
    [
        ("er", "disjoint"),
        ("vanilla-etf", "gaussian"),
        pytest.param("scr", "gaussian", marks=pytest.mark.slow),
    ],
)
def test_flops_of_training_are_those_that_a_run_counts(method: str, stream: str) -> None:
    settings = {**SMALL, "d": 32, "hidden": 32} if method == "vanilla-etf" else SMALL
    experiment = Experiment(method=method, dataset="digits", stream=stream, settings=settings)
    run = experiment.build()
    for _ in learn_online(run.learner, run.stream, run.exam, every=10**6):
        pass
    said = Costs().of_run(experiment).training
    assert said == pytest.approx(run.learner.work.flops, rel=0.1)  # the first batches are smaller


def test_exams_are_about_the_test_images_of_the_classes_seen_so_far() -> None:
    experiment = Experiment(method="er", dataset="digits", stream="gaussian", settings=SMALL)
    run = experiment.build()
    labels = run.dataset.train.labels[run.stream.schedule.order]
    asked = [
        len(run.exam.questions(labels[:step])) for step in range(40, len(labels) + 1, run.every)
    ]
    assert RunPlan(experiment).questions == pytest.approx(sum(asked), rel=0.15)


def test_a_matched_run_costs_what_its_reference_costs() -> None:
    settings = {"depth": 8, "width": 8}
    er = Experiment(method="er", dataset="digits", stream="disjoint", settings=settings)
    matched = Experiment(
        method="er-mir", dataset="digits", stream="disjoint", settings=settings,
        match="flops", to="er",
    )  # fmt: skip
    costs = Costs()
    assert costs.of_run(matched).training == costs.of_run(er).training
    both = costs.of_sweep([er, matched])
    assert both.runs == 2 and both.training == 2 * costs.of_run(er).training
    assert both.hours(1e12) == pytest.approx((both.training + both.exams) / 3.6e15)


def test_before_the_first_blocks_are_frozen_all_of_the_network_is_trained() -> None:
    settings = {"depth": 8, "width": 8, "frozen": 2, "codebooks": 2}
    costs = Costs()

    def training(method: str, **more: float) -> float:
        settings_of = (
            {**settings, **more} if method == "remind" else dict(list(settings.items())[:2])
        )
        experiment = Experiment(
            method=method, dataset="digits", stream="disjoint", settings=settings_of
        )
        return costs.of_run(experiment).training

    short, long = training("remind", base=0.1), training("remind", base=0.9)
    assert short < long < training("er")


def test_data_of_one_s_own_have_no_known_cost() -> None:
    experiment = Experiment(method="er", dataset="folder:photos", stream="iid")
    with pytest.raises(InvalidSetting, match="not known before its data are there"):
        Costs().of_run(experiment)


def test_the_command_tells_hours_of_a_device(
    typed: Callable[..., tuple[int, str, str]],
) -> None:
    words = ("reproduce", "fig-tsne", "--scale", "small", "--cost", "--tflops", "1", "--json")
    code, out, err = typed(*words)
    assert code == 0, err
    [(name, cost)] = json.loads(out).items()
    assert name == "fig-tsne" and cost["runs"] == 1
    assert cost["hours"] == pytest.approx((cost["training"] + cost["exams"]) / 3.6e15)
