"""A network is in the mode that is asked for, and afterwards in the one it was in."""

import pytest
import torch

from earl.nn.modes import eval_mode, train_forward
from small_networks import flags, mixed, random, small

close = torch.testing.assert_close


# ---- modes


def test_evaluating_restores_the_mode_of_every_part():
    network = mixed()
    before = flags(network)
    with eval_mode(network):
        assert not any(flags(network).values())
        with eval_mode(network):
            pass
        assert not any(flags(network).values())
    assert flags(network) == before and len(set(before.values())) == 2


def test_evaluating_restores_modes_after_an_error():
    network = mixed()
    before = flags(network)
    with pytest.raises(ZeroDivisionError), eval_mode(network):
        raise ZeroDivisionError
    assert flags(network) == before


def test_evaluating_restores_modes_even_if_they_were_changed_meanwhile():
    network = mixed()
    before = flags(network)
    with eval_mode(network):
        network.train()
    assert flags(network) == before


# ---- train_forward


def test_one_image_alone_can_be_trained_on_even_when_its_last_map_is_one_pixel():
    network = small(depth=10)
    out = train_forward(network, random(1, 3, 8, 8))  # 8 / 2 / 2 / 2 = 1 pixel
    assert out.shape == (1, 32) and out.isfinite().all()
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())
    assert all(b.isfinite().all() for b in network.buffers())


def test_one_image_alone_has_the_features_of_the_same_image_twice():
    network, twin = small(), small()
    x = random(1, 3, 16, 16)
    close(train_forward(network, x)[0], twin.train()(x.expand(2, -1, -1, -1))[1])


def test_a_batch_runs_through_the_network_in_training_mode():
    network, twin = small().eval(), small()
    x = random(5, 3, 8, 8)
    close(train_forward(network, x), twin.train()(x))
    assert all(flags(network).values())
    assert all(int(m.num_batches_tracked) == 1 for m in network.modules() if hasattr(m, "momentum"))
