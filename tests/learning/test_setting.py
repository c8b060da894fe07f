"""Settings and inputs that cannot be are refused, with what was found and what to do."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor

from earl.errors import InvalidInput, InvalidSetting
from earl.learning.passes import adam
from plain_setting import ids, raw, setting


def quietly(make, *given, **named):
    """Return what is made although torch warns of it as young or old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given, **named)


# ---- settings


def test_the_defaults_are_the_published_ones():
    default = setting()
    assert default.lr == 3e-4 and default.iterations == 1 and default.batch_size == 16
    assert default.memory_size == 500


@pytest.mark.parametrize("name", ["memory_size", "batch_size"])
@pytest.mark.parametrize("value", [0, -3])
def test_sizes_below_one_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} = {value}"):
        setting(**{name: value})


@pytest.mark.parametrize("name", ["iterations", "lr"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_rates_that_are_not_positive_and_finite_are_refused(name, value):
    with pytest.raises(InvalidSetting, match=f"{name} = {value}"):
        setting(**{name: value})


def test_a_setting_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        setting().lr = 1.0


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (np.zeros((2, 3, 4, 5), dtype=np.uint8), ["ndarray", "torch.from_numpy"]),
        ([1, 2], ["list"]),
        (raw().float(), ["torch.float32", "uint8", "255"]),
        (raw().bool(), ["torch.bool", "uint8"]),
        (raw().long(), ["torch.int64", "uint8"]),
        (raw()[0], ["(B, 3, 4, 5)", "(3, 4, 5)", "x[None]"]),
        (raw(shape=(3, 5, 4)), ["(B, 3, 4, 5)", "(2, 3, 5, 4)", "resize"]),
        (raw(shape=(1, 4, 5)), ["(B, 3, 4, 5)", "(2, 1, 4, 5)"]),
        (raw(0), ["B >= 1", "(0, 3, 4, 5)"]),
        (raw()[None], ["(1, 2, 3, 4, 5)"]),
        (raw().to_sparse(), ["dense", "sparse_coo", "to_dense()"]),
        (quietly(raw()[0, 0].to_sparse_csr), ["dense", "sparse_csr"]),
        (raw().to("meta"), ["dense", "meta"]),
        (quietly(torch.nested.nested_tensor, list(raw())), ["dense", "nested"]),
        (torch.nested.nested_tensor(list(raw()), layout=torch.jagged), ["dense", "nested"]),
        (FakeTensorMode().from_tensor(raw()), ["dense", "FakeTensor"]),
        (quietly(torch.quantize_per_tensor, raw().float(), 1.0, 0, torch.quint8), ["torch.quint8"]),
    ],
)
def test_wrong_images_are_refused_with_what_was_found_and_what_to_do(x, says):
    with pytest.raises(InvalidInput) as error:
        setting().check_images(x)
    for part in says:
        assert part in str(error.value)
    with pytest.raises(InvalidInput):
        setting().check_samples(x, ids(0, 0))


@pytest.mark.parametrize(
    ("y", "says"),
    [
        ([0, 1], ["list", "integer"]),
        (torch.tensor([0.0, 1.0]), ["torch.float32", "integer"]),
        (torch.tensor([True, False]), ["torch.bool"]),
        (ids(0), ["(2,)", "(1,)"]),
        (ids(0, 1, 2), ["(2,)", "(3,)"]),
        (ids(0, 1)[:, None], ["(2,)", "(2, 1)"]),
        (torch.tensor(0), ["(2,)", "()"]),
        (ids(3, -1), ["-1", "negative"]),
        (ids(-7, 2), ["-7", "negative"]),
        (ids(0, 1).to_sparse(), ["dense", "sparse_coo"]),
        (ids(0, 1).to("meta"), ["dense", "meta"]),
        (quietly(torch.nested.nested_tensor, [ids(0, 1)]), ["dense", "nested"]),
        (quietly(masked_tensor, ids(0, 1), ids(0, 1) > 0), ["dense", "MaskedTensor"]),
        (
            quietly(torch.quantize_per_tensor, ids(0, 1).float(), 1.0, 0, torch.quint8),
            ["torch.quint8"],
        ),
    ],
)
def test_wrong_labels_are_refused_with_what_was_found(y, says):
    with pytest.raises(InvalidInput) as error:
        setting().check_samples(raw(), y)
    for part in says:
        assert part in str(error.value)


class Tagged(torch.Tensor):
    """A tensor like any other under another name, as libraries of transforms have it."""


def test_tensors_that_only_have_another_name_are_accepted():
    setting().check_samples(raw().as_subclass(Tagged), ids(0, 1).as_subclass(Tagged))
    setting().check_images(nn.Parameter(raw(), requires_grad=False))
    setting().check_images(raw(1).expand(7, -1, -1, -1))  # seven times the same memory


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_right_samples_of_any_integer_label_are_accepted(dtype):
    setting().check_images(raw(1))
    setting().check_samples(raw(), torch.tensor([0, 99], dtype=dtype))


# ---- the optimiser


def test_the_optimiser_is_adam_with_default_betas_and_no_decay():
    network = nn.Linear(2, 3)
    (group,) = adam(network.parameters(), 3e-4).param_groups
    assert group["lr"] == 3e-4 and group["betas"] == (0.9, 0.999) and group["eps"] == 1e-8
    assert group["weight_decay"] == 0 and not group["amsgrad"] and group["fused"]
