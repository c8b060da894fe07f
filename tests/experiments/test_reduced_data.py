"""Data sets that are made smaller or turned: the same images for every run that asks for them."""

from dataclasses import replace

import pytest
import torch
from test_loading import experiment

from earl.data.reduce import reduced, rotated
from earl.data.sets import shapes
from earl.errors import InvalidSetting
from earl.experiments.experiment import Experiment

# ---- reduced and turned --------------------------------------------------------------------------


def test_reduced_sets_are_nested_fixed_and_leave_the_test_set_alone():
    data = shapes.load()
    rows = {}
    for limit in (10, 50):
        small = reduced(data, limit=limit)
        assert len(small.train) == limit and small.test is data.test
        rows[limit] = set(small.train.images.rows.tolist())
        x = small.train.images[torch.arange(limit)]
        assert torch.equal(x, data.train.images[small.train.images.rows])
    assert rows[10] < rows[50]
    each = reduced(data, per_class=7)
    assert each.train.labels.bincount().tolist() == [7] * 4
    assert len(reduced(data, per_class=7, limit=9).train) == 9
    assert len(reduced(data, limit=10**6).train) == len(data.train)
    assert reduced(data) is data
    with pytest.raises(InvalidSetting, match="limit = -1"):
        reduced(data, limit=-1)


def test_a_limit_that_leaves_one_class_says_what_to_do():
    data = shapes.load()
    with pytest.raises(
        InvalidSetting, match=r"limit = 1 leaves 1 of 160 .* 1 class only; .*--per-cl"
    ):
        reduced(data, limit=1)
    assert len(reduced(data, per_class=1).train) == 4


@pytest.mark.parametrize(
    ("stream", "limit", "cause"),
    [("gaussian", 3, "the stream has 3 samples"), ("disjoint", 9, "the stream has 4 classes")],
)
def test_more_tasks_than_there_is_room_for_names_the_cause(stream, limit, cause):
    made = Experiment(
        method="er", dataset="shapes", stream=stream, settings={"limit": limit, "tasks": 5}
    )
    with pytest.raises(InvalidSetting, match=rf"tasks = 5 .*, since {cause}; .*--limit"):
        made.build()


def test_reduced_keeps_names_and_buckets():
    data = shapes.load()
    n = len(data.train)
    train = replace(data.train, domains=torch.arange(n), names=tuple(map(str, range(n))))
    small = reduced(replace(data, train=train), per_class=3).train
    assert small.domains.tolist() == [int(name) for name in small.names]


def test_reduction_does_not_depend_on_the_seed_of_the_run():
    def chosen(seed):
        made = replace(experiment("shapes", limit=20), seed=seed).build()
        return made.dataset.train.images.rows

    assert torch.equal(chosen(1), chosen(2))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotated_images_are_turned_anticlockwise(degrees):
    data = shapes.load()
    turned = rotated(data, degrees)
    index = torch.arange(5)
    expected = torch.rot90(data.test.images[index], degrees // 90, (2, 3))
    assert torch.equal(turned.test.images[index], expected)
    assert turned.train.images.shape == data.train.images.shape
    for x in turned.train.images.batches([index]):
        assert torch.equal(x, turned.train.images[index])
    with pytest.raises(InvalidSetting, match="rotate = 45"):
        rotated(data, 45)
