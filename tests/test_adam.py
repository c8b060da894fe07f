"""Adam over weights in the order of memory beside torch's own fused one: the same bits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from earl.adam import Adam, in_order

LAST, FIRST = torch.channels_last, torch.contiguous_format
STEPS = 12
# Sizes that fill no vector registers; a matrix, a vector and a scalar beside.
SHAPES = ((5, 3, 3, 3), (7, 2, 1, 1), (33, 1, 3, 3), (1, 5, 3, 3), (9, 31), (17,), ())


def weights(layout: torch.memory_format = LAST) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator) for shape in SHAPES)
    return [nn.Parameter(laid(x, layout)) for x in drawn]


def laid(x: Tensor, layout: torch.memory_format) -> Tensor:
    return x.contiguous(memory_format=layout) if x.dim() == 4 else x


def walk(
    params: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    steps: range,
    layout: torch.memory_format = LAST,
) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(1 + step)
        for i, param in enumerate(params):
            scale = 10.0 ** -(step % 9)
            gradient = laid(scale * torch.randn(param.shape, generator=generator), layout)
            param.grad = None if i == step % 5 else gradient  # now and then one has none
        optimizer.step()


def fused(params: list[nn.Parameter], lr: float) -> torch.optim.Adam:
    return torch.optim.Adam(params, lr=lr, fused=True)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("of_gradients", [LAST, FIRST])
@pytest.mark.parametrize("of_weights", [LAST, FIRST])
def test_its_steps_are_torchs_to_the_last_bit(
    of_weights: torch.memory_format, of_gradients: torch.memory_format, threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours, theirs = weights(of_weights), weights(of_weights)
        one, other = Adam(ours, lr=1e-2), fused(theirs, lr=1e-2)
        walk(ours, one, range(STEPS), of_gradients)
        walk(theirs, other, range(STEPS), of_gradients)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()
        assert all(torch.equal(one.state[a][name], other.state[b][name]) for name in one.state[a])


@pytest.mark.parametrize(("first", "second"), [(Adam, fused), (fused, Adam)])
def test_either_goes_on_from_the_state_of_the_other(
    first: Callable[..., torch.optim.Adam], second: Callable[..., torch.optim.Adam]
) -> None:
    expected = weights()
    walk(expected, fused(expected, lr=1e-2), range(STEPS))
    params = weights()
    before, after = first(params, lr=1e-2), second(params, lr=1e-2)
    walk(params, before, range(STEPS // 2))
    after.load_state_dict(before.state_dict())
    walk(params, after, range(STEPS // 2, STEPS))
    assert all(torch.equal(a, b) for a, b in zip(params, expected, strict=True))


def test_each_group_has_its_own_settings_and_may_stand_still() -> None:
    ours, theirs = weights(), weights()
    for params, kind in ((ours, Adam), (theirs, fused)):
        optimizer = kind(params[:2], lr=1e-2)
        optimizer.add_param_group({"params": params[2:], "lr": 1e-3, "weight_decay": 0.1})
        for step in range(3):
            for i, param in enumerate(params):
                param.grad = torch.full_like(param, 0.1 + i) if step < 2 or i >= 2 else None
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_torch_is_handed_what_it_need_not_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[bool] = []

    def watched(*columns: list[Tensor], **settings: object) -> None:
        handed.extend(x.is_contiguous() for column in columns for x in column)

    monkeypatch.setattr("earl.adam.adam", watched)
    params = weights()
    optimizer = Adam(params, lr=1e-2)
    walk(params, optimizer, range(2))  # torch begins the state
    assert not handed
    walk(params, optimizer, range(2, 3))
    assert len(handed) == 5 * (len(params) - 1) and all(handed)


def test_channels_last_weights_are_handed_over_without_gaps() -> None:
    weight, matrix = weights()[0], weights()[4]
    assert not weight.is_contiguous()
    views = in_order(weight, torch.empty_like(weight))
    assert all(view.is_contiguous() for view in views)
    assert views[0].data_ptr() == weight.data_ptr()
    assert in_order(matrix) == (matrix,)
