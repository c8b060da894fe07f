"""Images held out for choosing settings, and exams that ask about fewer images."""

from dataclasses import replace

import pytest
import torch

from earl.data.reduce import with_smaller_exam, with_validation
from earl.data.sets import digits, shapes
from earl.errors import InvalidSetting
from earl.experiments.experiment import Experiment


def pixels(split):
    return {row.numpy().tobytes() for row in split.images[torch.arange(len(split))]}


def test_validation_images_are_training_images_and_never_streamed():
    data = digits.load()
    divided = with_validation(data, 0.25)
    assert divided.train.labels.bincount().tolist() == [90] * 10
    assert divided.test.labels.bincount().tolist() == [30] * 10
    assert pixels(divided.train) | pixels(divided.test) == pixels(data.train)
    assert not pixels(divided.train) & pixels(divided.test)
    assert not pixels(divided.test) & pixels(data.test)
    assert any("300 training images that are held out" in note for note in divided.notes)


def test_every_class_and_bucket_gives_its_share():
    data = shapes.load()
    buckets = torch.arange(len(data.train)) // 2 % 4
    data = replace(data, train=replace(data.train, domains=buckets))
    divided = with_validation(data, 0.5)
    for split in (divided.train, divided.test):
        pairs = split.labels * 4 + split.domains
        of_all = (data.train.labels * 4 + buckets).bincount()
        assert ((pairs.bincount(minlength=len(of_all)) * 2 - of_all).abs() <= 1).all()


def test_what_is_held_out_does_not_depend_on_seed_or_limit():
    def held(**changes):
        settings = {"validation": 0.2} | changes.pop("settings", {})
        experiment = Experiment(
            method="er", dataset="shapes", stream="disjoint", settings=settings, **changes
        )
        return experiment.load().test.images.rows

    assert torch.equal(held(seed=1), held(seed=2))
    assert torch.equal(held(), held(settings={"limit": 20}))
    assert torch.equal(held(), held(settings={"per_class": 5}))


def test_a_smaller_exam_asks_the_same_images_of_every_class_in_every_run():
    data = digits.load()
    small, smaller = with_smaller_exam(data, 20), with_smaller_exam(data, 5)
    assert small.test.labels.bincount().tolist() == [20] * 10
    assert small.train is data.train
    assert set(smaller.test.images.rows.tolist()) < set(small.test.images.rows.tolist())
    assert len(with_smaller_exam(data, 10**6).test) == len(data.test)


def test_both_are_settings_of_a_run():
    experiment = Experiment(
        method="er",
        dataset="shapes",
        stream="disjoint",
        settings={"validation": 0.25, "exam_per_class": 3},
    )
    assert experiment.path().parts[0] == "shapes,exam_per_class=3,validation=0.25"
    built = experiment.build()
    assert built.exam.test.labels.bincount().tolist() == [3] * 4
    assert built.exam.test.images.images.images is built.stream.split.images.images  # training's


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5, float("nan")])
def test_a_share_outside_of_0_to_1_is_refused(share):
    with pytest.raises(InvalidSetting, match="validation = "):
        with_validation(shapes.load(), share)


def test_a_share_that_leaves_nothing_is_refused():
    data = shapes.load()
    with pytest.raises(InvalidSetting, match="no images to ask about"):
        with_validation(data, 1e-6)
    with pytest.raises(InvalidSetting, match="nothing to learn"):
        with_validation(data, 1 - 1e-6)
    with pytest.raises(InvalidSetting, match="exam_per_class = -1"):
        with_smaller_exam(data, -1)


def test_nothing_asked_for_changes_nothing():
    data = shapes.load()
    assert with_validation(data, 0) is data and with_smaller_exam(data, 0) is data
