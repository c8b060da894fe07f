"""The VAE against loops, closed forms and the distributions it claims to draw from."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from earl.errors import InvalidSetting
from earl.methods.oddl.vae import VAE, kl_from_prior, log_likelihood, reparameterise
from earl.nn.build import build
from seeds import generator

SHAPE = (3, 4, 5)


def vae(latent: int = 6, hidden: int = 16, shape: tuple[int, int, int] = SHAPE) -> VAE:
    return build(lambda: VAE(shape, latent, hidden), generator(1))


def images(n: int, seed: int = 2) -> Tensor:
    return torch.rand(n, *SHAPE, generator=generator(seed))


@torch.no_grad()
def test_the_bound_is_that_of_a_double_loop_over_pixels_and_latents() -> None:
    model, x = vae(), images(3)
    epsilon = model.noise(2, 3, generator=generator(5))  # two draws for each of three images
    found = model(x, epsilon)
    for b in range(3):
        mean, log_var = model.encode(x[b : b + 1])
        bound = 0.0
        for draw in epsilon[:, b].tolist():
            rows = zip(mean[0].tolist(), log_var[0].tolist(), draw, strict=True)
            logits = model.decoder(torch.tensor([[m + math.exp(v / 2) * e for m, v, e in rows]]))
            for pixel, logit in zip(
                x[b].flatten().tolist(), logits.flatten().tolist(), strict=True
            ):
                p = 1 / (1 + math.exp(-logit))
                bound += (pixel * math.log(p) + (1 - pixel) * math.log(1 - p)) / 2
        for m, v in zip(mean[0].tolist(), log_var[0].tolist(), strict=True):
            bound -= (m * m + math.exp(v) - v - 1) / 2
        assert float(found[b]) == pytest.approx(bound, rel=1e-5)


def test_the_divergence_is_torch_s_own() -> None:
    mean = torch.randn(5, 7, generator=generator())
    log_var = torch.randn(5, 7, generator=generator(1))
    q, prior = Normal(mean, (log_var / 2).exp()), Normal(torch.zeros(5, 7), torch.ones(5, 7))
    torch.testing.assert_close(kl_from_prior(mean, log_var), kl_divergence(q, prior).sum(dim=1))
    assert kl_from_prior(torch.zeros(1, 3), torch.zeros(1, 3)).tolist() == [0]


def test_the_likelihood_of_a_sure_and_right_decoder_is_1() -> None:
    x = (images(4) > 0.5).float()
    torch.testing.assert_close(log_likelihood(x, (2 * x - 1) * 50), torch.zeros(4))
    torch.testing.assert_close(
        log_likelihood(x, torch.zeros_like(x)), torch.full((4,), 60 * math.log(0.5))
    )


def test_draws_have_the_mean_and_the_variance_they_should() -> None:
    mean, log_var = torch.tensor([[2.0, -1.0]]), torch.tensor([[0.0, math.log(9.0)]])
    n = 40_000
    z = reparameterise(mean, log_var, vae(latent=2).noise(n, generator=generator()))
    std = torch.tensor([1.0, 3.0])
    assert ((z.mean(dim=0) - mean[0]).abs() < 5 * std / math.sqrt(n)).all()
    assert ((z.var(dim=0) - std**2).abs() < 5 * std**2 * math.sqrt(2 / n)).all()


def test_gradients_reach_mean_and_variance_through_a_draw() -> None:
    mean = torch.zeros(2, 3, requires_grad=True)
    log_var = torch.full((2, 3), math.log(4.0), requires_grad=True)
    epsilon = torch.randn(2, 3, generator=generator(3))
    reparameterise(mean, log_var, epsilon).sum().backward()
    assert mean.grad is not None and log_var.grad is not None
    assert torch.equal(mean.grad, torch.ones(2, 3))
    torch.testing.assert_close(log_var.grad, epsilon)  # dz / d log σ² = σ ε / 2, σ = 2


def test_every_parameter_is_trained_by_the_bound() -> None:
    for draws in (0, 1, 3):
        model = vae()
        noise = model.noise(draws, 8, generator=generator()) if draws else None
        model(images(8), noise).sum().backward()
        assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_new_images_are_decoded_draws_from_the_prior() -> None:
    model = vae()
    z = torch.randn(5, 6, generator=generator(4))
    found = model.generate(5, generator(4))
    torch.testing.assert_close(found, torch.sigmoid(model.decoder(z)), check_device=False)
    assert found.shape == (5, *SHAPE) and not found.requires_grad
    model.decoder = nn.Sequential()  # shows the draws themselves
    n = 40_000
    z = torch.logit(model.generate(n, generator(7)))
    assert (z.mean(dim=0).abs() < 5 / math.sqrt(n)).all()
    assert ((z.var(dim=0) - 1).abs() < 5 * math.sqrt(2 / n)).all()


def test_noise_may_be_the_same_for_all_images() -> None:
    model, x = vae(), images(4)
    before = torch.get_rng_state()
    noise = model.noise(3, 1, generator=generator())
    found = model(x, noise)
    assert torch.equal(model(x, noise), found)
    torch.testing.assert_close(model(x, noise.expand(3, 4, 6)), found)
    torch.testing.assert_close(model(x[2:3], noise)[0], found[2])
    assert not torch.equal(model(x, model.noise(3, 1, generator=generator(1))), found)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_noise_the_mean_is_decoded() -> None:
    model, x = vae(), images(4)
    mean, log_var = model.encode(x)
    bound = log_likelihood(x, model.decoder(mean)) - kl_from_prior(mean, log_var)
    torch.testing.assert_close(model(x), bound)


def test_it_learns_to_rebuild_and_to_tell_its_images_from_others() -> None:
    model = vae(latent=4, hidden=32)
    patterns = (images(2, seed=9) > 0.5).float()
    others = (images(2, seed=10) > 0.5).float()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for t in range(300):
        optimizer.zero_grad()
        noise = model.noise(1, 16, generator=generator(t))
        (-model(patterns.repeat(8, 1, 1, 1), noise).mean()).backward()
        optimizer.step()
    with torch.no_grad():
        mean, _ = model.encode(patterns)
        assert torch.equal(torch.sigmoid(model.decoder(mean)).round(), patterns)
        assert model(patterns).min() > model(others).max() + 20
    dreams = model.generate(200, generator())
    nearest = torch.cdist(dreams.flatten(1), patterns.flatten(1)).argmin(dim=1)
    assert 20 < int(nearest.sum()) < 180  # both are dreamed of


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 16, 16), (3, 5, 7)])
def test_images_may_have_any_shape(shape: tuple[int, int, int]) -> None:
    model = vae(shape=shape)
    assert model.generate(2, generator()).shape == (2, *shape)
    assert model(torch.zeros(2, *shape)).shape == (2,)


@pytest.mark.parametrize(("latent", "hidden"), [(0, 4), (4, 0)])
def test_an_empty_layer_is_refused(latent: int, hidden: int) -> None:
    with pytest.raises(InvalidSetting, match="needs 1 or more of each"):
        VAE(SHAPE, latent, hidden)
