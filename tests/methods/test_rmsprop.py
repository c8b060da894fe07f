"""RMSprop in one pass beside torch's own, with the same gradients."""

import torch
from torch import Tensor, nn

from earl.methods.oddl.rmsprop import RMSprop

SHAPES = ((7, 5), (33,), ())
STEPS = 20


def weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def gradients(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1 + step)
    scale = 10.0 ** -(step % 9)  # down to that of ε
    return [scale * torch.randn(shape, generator=generator) for shape in SHAPES]


def walk(
    params: list[nn.Parameter], optimizer: torch.optim.Optimizer, begin: int, end: int
) -> None:
    for step in range(begin, end):
        for param, gradient in zip(params, gradients(step), strict=True):
            param.grad = gradient.clone()
        optimizer.step()


def test_its_steps_are_those_of_torch() -> None:
    ours, theirs = weights(), weights()
    one, other = RMSprop(ours, lr=1e-2), torch.optim.RMSprop(theirs, lr=1e-2)
    for step in range(STEPS):
        walk(ours, one, step, step + 1)
        walk(theirs, other, step, step + 1)
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.state[a], other.state[b])


def test_either_goes_on_from_the_state_of_the_other() -> None:
    expected = weights()
    walk(expected, torch.optim.RMSprop(expected, lr=1e-2), 0, STEPS)
    for first, second in ((RMSprop, torch.optim.RMSprop), (torch.optim.RMSprop, RMSprop)):
        params = weights()
        before, after = first(params, lr=1e-2), second(params, lr=1e-2)
        walk(params, before, 0, STEPS // 2)
        after.load_state_dict(before.state_dict())
        walk(params, after, STEPS // 2, STEPS)
        torch.testing.assert_close(params, expected, rtol=1e-6, atol=1e-6)


def test_weights_without_a_gradient_stay_as_they_are() -> None:
    still, moving = weights()[:2]
    optimizer = RMSprop([still, moving], lr=1e-2)
    before = still.clone(), moving.clone()
    optimizer.step()  # none has one
    moving.grad = torch.ones_like(moving)
    optimizer.step()
    assert torch.equal(still, before[0]) and not torch.equal(moving, before[1])
