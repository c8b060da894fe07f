"""The projection's published presets, and a head whose growth nobody else notices."""

import copy
import math

import pytest
import torch
from torch.nn import functional as F

from earl.learning.passes import adam
from earl.nn.build import build
from earl.nn.heads import Classifier, GrowingLinear, Projection
from seeds import generator
from small_networks import macs, on_paper, parameters, random, small

close = torch.testing.assert_close


# ---- the projection: the published presets

PRESETS = [(2048, 1024, 7_877_632, 7.9), (4096, 2048, 28_338_176, 28.3)]
PRESETS += [(2048, 4096, 15_745_024, 15.7), (8192, 4096, 107_008_000, 107)]
PRESETS += [(1024, 512, 2_365_952, 2.4)]


@pytest.mark.parametrize(("hidden", "d", "count", "million"), PRESETS)
def test_projection_presets_have_the_published_parameters_and_cost(hidden, d, count, million):
    p = on_paper(lambda: Projection(512, d, hidden))
    assert parameters(p) == count
    assert macs(p, 1, 512) / 1e6 == pytest.approx(million, abs=0.05)
    assert p(torch.empty(3, 512, device="meta")).shape == (3, d)


def test_projection_is_a_linear_map_plus_a_three_layer_network():
    p = build(lambda: Projection(5, 4, 6), generator())
    x = random(3, 5)
    first, norm1, _, second, norm2, _, third = p.mlp
    y = F.leaky_relu(F.layer_norm(F.linear(x, first.weight, first.bias), (6,), eps=1e-6), 0.1)
    y = F.leaky_relu(F.layer_norm(F.linear(y, second.weight, second.bias), (6,), eps=1e-6), 0.1)
    expected = x @ p.linear.weight.T + F.linear(y, third.weight, third.bias)
    assert p.linear.bias is None and norm1.eps == norm2.eps == 1e-6
    close(p(x), expected)


def test_projection_without_hidden_units_is_the_linear_map_alone():
    p = build(lambda: Projection(5, 4, 0), generator())
    assert parameters(p) == 20
    x = random(3, 5)
    close(p(x), x @ p.linear.weight.T)


@pytest.mark.parametrize("hidden", [0, 6])
def test_a_grown_projection_gives_the_same_features_and_zeros_and_keeps_its_moments(hidden):
    p = build(lambda: Projection(5, 4, hidden), generator())
    optimizer, x = adam(p.parameters(), 0.01), random(3, 5)
    p(x).square().sum().backward()
    optimizer.step()
    before, last = p(x).detach(), p.linear.weight
    moments = {name: value.clone() for name, value in optimizer.state[last].items()}
    p.grow(9, optimizer)
    assert p.linear.weight is last and last.shape == (9, 5)
    close(p(x), F.pad(before, (0, 5)))  # products of another shape may round differently
    assert not p(x)[:, 4:].any()
    for name, value in optimizer.state[last].items():
        kept = moments[name] if name == "step" else F.pad(moments[name], (0, 0, 0, 5))
        assert torch.equal(value, kept)
    optimizer.zero_grad()
    (p(x) - 1).square().sum().backward()
    optimizer.step()  # fused Adam takes the new shapes
    assert bool((p(x)[:, 4:] != 0).all())


def test_a_head_takes_longer_inputs_and_answers_old_ones_as_before():
    part, x = build(lambda: GrowingLinear(5, rows=4), generator()), random(3, 5)
    optimizer = adam(part.parameters(), 0.01)
    part(x)[:, :3].square().sum().backward()
    optimizer.step()
    before = part(x).detach()[:, :3]
    part.widen(8, 3, optimizer, generator(1))
    more = torch.cat((x, random(3, 3)), dim=1)
    close(part(more)[:, :3], before)
    assert bool((part.weight[3] != 0).all())  # a row not in use is drawn anew
    assert optimizer.state[part.weight]["exp_avg"].shape == (4, 8)
    assert not optimizer.state[part.weight]["exp_avg_sq"][:, 5:].any()


# ---- a head that grows


def head(rows, size=6, seed=0):
    return build(lambda: GrowingLinear(size, rows=rows), generator(seed))


def train(part, optimizer, classes, steps, seed):
    """Take steps of cross-entropy over the first `classes` rows on random samples."""
    for step in range(steps):
        x = random(8, part.weight.shape[1], seed=1000 * seed + step)
        y = torch.randint(classes, (8,), generator=generator(1000 * seed + step))
        optimizer.zero_grad()
        F.cross_entropy(part(x)[:, :classes], y).backward()
        optimizer.step()


def test_a_head_is_a_linear_map_with_bias():
    part = head(5)
    x = random(3, 6)
    close(part(x), x @ part.weight.T + part.bias)


def test_rows_not_in_use_keep_their_first_values():
    part = head(8)
    optimizer = adam(part.parameters(), 0.01)
    before = part.weight.detach().clone(), part.bias.detach().clone()
    train(part, optimizer, classes=3, steps=5, seed=0)
    assert torch.equal(part.weight[3:], before[0][3:]) and torch.equal(part.bias[3:], before[1][3:])
    assert not torch.equal(part.weight[:3], before[0][:3])


@pytest.mark.parametrize(("n", "rows"), [(3, 4), (4, 4), (5, 8), (8, 8), (9, 9), (30, 30)])
def test_growing_makes_at_least_double_room_and_only_when_needed(n, rows):
    part = head(4)
    part.grow(n, adam(part.parameters(), 0.01), generator())
    assert part.weight.shape == (rows, 6) and part.bias.shape == (rows,)


def test_growing_without_need_changes_and_draws_nothing():
    part, g = head(4), generator()
    optimizer = adam(part.parameters(), 0.01)
    train(part, optimizer, classes=4, steps=1, seed=0)
    before, state = part.weight.detach().clone(), g.get_state()
    part.grow(4, optimizer, g)
    assert torch.equal(part.weight, before) and torch.equal(g.get_state(), state)
    assert part.weight.grad is not None


def test_growing_leaves_old_rows_and_moments_and_starts_new_ones_afresh():
    part = head(4)
    optimizer = adam(part.parameters(), 0.01)
    train(part, optimizer, classes=4, steps=3, seed=0)
    identity = [id(p) for p in part.parameters()]
    values = [p.detach().clone() for p in part.parameters()]
    moments = [{k: v.clone() for k, v in optimizer.state[p].items()} for p in part.parameters()]
    part.grow(6, optimizer, generator(7))
    assert [id(p) for p in part.parameters()] == identity
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == identity
    for p, value, moment in zip(part.parameters(), values, moments, strict=True):
        assert torch.equal(p[:4], value)
        assert p[4:].abs().max() <= 1 / math.sqrt(6) and p[4:].std() > 0
        assert set(optimizer.state[p]) == set(moment) == {"step", "exp_avg", "exp_avg_sq"}
        assert torch.equal(optimizer.state[p]["step"], moment["step"])
        for name in ("exp_avg", "exp_avg_sq"):
            assert optimizer.state[p][name].shape == p.shape
            assert torch.equal(optimizer.state[p][name][:4], moment[name])
            assert not optimizer.state[p][name][4:].any()
        assert p.grad is None or p.grad.shape == p.shape  # an old gradient would not fit
    optimizer.step()


def test_new_rows_share_the_step_counter_so_that_their_updates_are_large_for_a_while():
    """As the pages say: 3.2 times the learning rate at first, 6.5 at most, 3.2 after a hundred."""
    part = head(4)
    optimizer = adam(part.parameters(), 0.01)
    train(part, optimizer, classes=4, steps=1, seed=0)
    for p in part.parameters():
        optimizer.state[p]["step"].fill_(100_000)
    part.grow(8, optimizer, generator(1))
    steps = []
    for _ in range(100):
        before = part.bias.detach().clone()
        for p in part.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        steps.append(float(before[-1] - part.bias[-1].detach()) / 0.01)
    close(torch.tensor(steps[0]), torch.tensor(3.16), atol=0.01, rtol=0)
    close(torch.tensor(max(steps)), torch.tensor(6.57), atol=0.01, rtol=0)
    assert 8 <= steps.index(max(steps)) <= 16  # counted from 0
    close(torch.tensor(steps[-1]), torch.tensor(3.24), atol=0.01, rtol=0)


def test_new_rows_depend_on_the_generator_alone():
    def grown(seed):
        part = head(4)
        part.grow(5, adam(part.parameters(), 0.01), generator(seed))
        return part.weight.detach()

    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert torch.equal(grown(1), grown(1))
    assert not torch.equal(grown(1)[4:], grown(2)[4:])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_head_that_grew_learns_exactly_like_one_that_was_large_from_the_start():
    growing, large = head(2), head(8)
    with torch.no_grad():  # the rows that `growing` will draw
        draws = head(2)
        draws.grow(4, adam(draws.parameters(), 0.01), generator(1))
        draws.grow(8, adam(draws.parameters(), 0.01), generator(2))
        large.weight.copy_(draws.weight)
        large.bias.copy_(draws.bias)
    optimizers = [adam(part.parameters(), 0.01) for part in (growing, large)]
    for n, seed in ((2, 0), (4, 1), (8, 2)):
        growing.grow(n, optimizers[0], generator(seed))
        for step in range(4):
            slope = random(n, 6, seed=10 * seed + step), random(n, seed=step)
            for part, optimizer in zip((growing, large), optimizers, strict=True):
                rows = len(part.weight)
                part.weight.grad = F.pad(slope[0], (0, 0, 0, rows - n))
                part.bias.grad = F.pad(slope[1], (0, rows - n))
                optimizer.step()
        assert torch.equal(growing.weight[:n], large.weight[:n])
        assert torch.equal(growing.bias[:n], large.bias[:n])


def test_a_grown_head_and_its_optimiser_load_into_a_fresh_smaller_one():
    old = head(2)
    optimizer = adam(old.parameters(), 0.01)
    train(old, optimizer, classes=2, steps=2, seed=0)
    old.grow(5, optimizer, generator(1))
    train(old, optimizer, classes=5, steps=2, seed=1)

    new = head(2, seed=9)
    fresh = adam(new.parameters(), 0.01)
    new.load_state_dict({k: v.clone() for k, v in old.state_dict().items()})
    fresh.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for part, one in ((old, optimizer), (new, fresh)):
        train(part, one, classes=5, steps=3, seed=2)
        part.grow(11, one, generator(3))
        train(part, one, classes=11, steps=3, seed=3)
    assert torch.equal(old.weight, new.weight) and torch.equal(old.bias, new.bias)


def test_a_classifier_with_a_grown_head_loads_into_a_fresh_one():
    def classifier(seed):
        return Classifier(small(seed), 32, generator(seed)).eval()

    old, new = classifier(0), classifier(1)
    rows = len(old.head.weight) + 1
    old.head.grow(rows, adam(old.parameters(), 0.01), generator())
    new.load_state_dict(old.state_dict())
    x = random(2, 3, 8, 8)
    assert new(x).shape[0] == 2 and new(x).shape[1] >= rows
    assert torch.equal(new(x), old(x))


def test_a_head_for_other_features_does_not_load():
    with pytest.raises(RuntimeError, match="size mismatch"):
        head(2, size=6).load_state_dict(head(2, size=7).state_dict())
