"""What a sweep is said to cost, beside what runs of it really cost."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from earl.errors import InvalidSetting
from earl.evaluation.loop import learn_online
from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.experiments.sweeps.cost import Costs, RunPlan

SMALL: dict[str, Value] = {"depth": 4, "width": 4, "per_class": 20, "every": 40}


def digits(method: str, stream: str = "disjoint", **settings: Value) -> Experiment:
    return Experiment(method=method, dataset="digits", stream=stream, settings=settings)


@pytest.mark.parametrize(
    ("method", "stream"),
    [
        ("er", "disjoint"),
        ("vanilla-etf", "gaussian"),
        pytest.param("scr", "gaussian", marks=pytest.mark.slow),
    ],
)
def test_flops_of_training_are_those_that_a_run_counts(method: str, stream: str) -> None:
    more = {"d": 32, "hidden": 32} if method == "vanilla-etf" else {}
    experiment = digits(method, stream, **SMALL, **more)
    run = experiment.build()
    for _ in learn_online(run.learner, run.stream, run.exam, every=10**6):
        pass
    said = Costs().of_run(experiment).training
    assert said == pytest.approx(run.learner.work.flops, rel=0.1)  # the first batches are smaller


def test_exams_are_about_the_test_images_of_the_classes_seen_so_far() -> None:
    experiment = digits("er", "gaussian", **SMALL)
    run = experiment.build()
    labels = run.dataset.train.labels[run.stream.schedule.order]
    asked = [
        len(run.exam.questions(labels[:step])) for step in range(40, len(labels) + 1, run.every)
    ]
    assert RunPlan(experiment).questions == pytest.approx(sum(asked), rel=0.15)


def test_a_matched_run_costs_what_its_reference_costs() -> None:
    er, costs = digits("er", depth=4, width=4), Costs()
    matched = replace(er, method="er-mir", match="flops", to="er")
    assert costs.of_run(matched).training == costs.of_run(er).training
    both = costs.of_sweep([er, matched])
    assert both.runs == 2 and both.training == 2 * costs.of_run(er).training
    assert both.hours(1e12) == pytest.approx((both.training + both.exams) / 3.6e15)


def test_before_the_first_blocks_are_frozen_all_of_the_network_is_trained() -> None:
    costs, er = Costs(), digits("er", depth=8, width=8)
    freezing = {**er.settings, "frozen": 2, "codebooks": 2}
    short, long = (
        replace(er, method="remind", settings={**freezing, "base": base}) for base in (0.1, 0.9)
    )
    told = [costs.of_run(experiment).training for experiment in (short, long, er)]
    assert told == sorted(set(told))


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
