"""Options and experiments: names and numbers, checked before anything is built."""

from pathlib import PurePath

import pytest

from earl.errors import InvalidSetting
from earl.experiments.catalogue import METHODS, STREAMS
from earl.experiments.experiment import Experiment


def experiment(**given: object) -> Experiment:
    return Experiment(**({"method": "earl", "dataset": "digits", "stream": "gaussian"} | given))


@pytest.mark.parametrize("method", METHODS.names())
@pytest.mark.parametrize("stream", STREAMS.names())
def test_no_two_parts_of_a_run_share_an_option(method: str, stream: str) -> None:
    values = experiment(method=method, stream=stream).values()
    assert {"lr", "batch_size", "memory_size", "iterations", "every", "width"} <= set(values)


def test_values_come_from_the_given_the_recipe_and_the_defaults() -> None:
    values = experiment(settings={"k": 5}).values()
    assert values["k"] == 5  # given
    assert values["d"] == 64  # the recipe of digits
    assert values["tau"] == 0.9  # the method's default


def test_text_becomes_the_type_of_the_option() -> None:
    given = {"k": "25", "tau": "0.5", "preparatory": "false", "negative": "noise", "lr": "1e-3"}
    settings = experiment(settings=given).settings
    expected = {"k": 25, "lr": 1e-3, "negative": "noise", "preparatory": False, "tau": 0.5}
    assert settings == expected and list(settings) == sorted(settings)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("k", "1.5", "must be a whole number"),
        ("k", "many", "must be a number"),
        ("k", True, "must be a number"),
        ("tau", "nan", "must be a finite number"),
        ("tau", "inf", "must be a finite number"),
        ("preparatory", "maybe", "must be true or false"),
        ("negative", "rotated", "is not one of rotation"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name} = .*{message}"):
        experiment(settings={name: value})


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(InvalidSetting, match="seed"):
        experiment(seed=seed)


def test_a_path_names_all_that_differs() -> None:
    assert experiment().path() == PurePath("digits/gaussian/earl/seed-1")
    other = experiment(settings={"tau": 0.5, "k": 25, "sigma": 0.2, "flip": True}, seed=3)
    assert other.path() == PurePath("digits/gaussian,sigma=0.2/earl,flip=true,k=25,tau=0.5/seed-3")
    assert experiment(probes=("collapse",)).path().parts[2] == "earl,probes=collapse"


def test_an_experiment_survives_being_written_down() -> None:
    one = experiment(settings={"k": 3, "preparatory": False}, probes=("collapse",), seed=9)
    assert Experiment.from_dict(one.as_dict()) == one


def test_methods_share_stream_and_backbone_at_the_same_seed() -> None:
    import torch

    er, earl = experiment(method="er").build(), experiment(method="earl").build()
    assert torch.equal(er.stream.schedule.order, earl.stream.schedule.order)
    g_er = er.learner.network.backbone.state_dict()  # type: ignore[attr-defined]
    g_earl = earl.learner.f[0].state_dict()  # type: ignore[attr-defined]
    assert all(torch.equal(g_er[name], g_earl[name]) for name in g_er)
