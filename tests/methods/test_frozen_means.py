"""EARL behind a frozen backbone: class means, seen through the projection."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from earl.errors import InvalidSetting
from earl.learning import Learner
from earl.learning.bytes_held import bytes_held
from earl.methods.earl import EARL
from earl.methods.earl.along import SHARE
from plain_setting import of_features

SIZE = 12
FROZEN = {"preparatory": False, "hidden": 0, "d": 16, "projection": "means"}
FROZEN |= {"residual_source": "means", "tau": 0.05}


def on_embeddings(**given: object) -> EARL:
    iterations = given.pop("iterations", 1e-6)  # next to none: what is there before
    setting = of_features(SIZE, iterations=iterations, memory_size=9)
    return EARL(nn.Flatten(), setting, **(FROZEN | given))


def features(n: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(n)
    y = torch.arange(n) % classes
    means = 2 * torch.rand(classes, SIZE, generator=draw)
    return (means[y] + torch.rand(n, SIZE, generator=draw))[:, :, None, None], y


def test_before_training_the_residual_of_the_nearest_mean_corrects() -> None:
    """With a small temperature: of unit features and class means, around the means' own mean.

    Both have their own numbers, and SHARE times ⟨m_c, x⟩ along the vector of each class c.
    """
    x, y = features(40)
    learner = on_embeddings(tau=1e-4, d=400)
    learner.observe(x, y)
    asked = features(60)[0]
    unit = F.normalize(x.flatten(1), dim=1)
    means = torch.stack([unit[y == c].mean(dim=0) for c in range(3)])
    centre = means.mean(dim=0)
    m, W = F.normalize(means - centre, dim=1), learner.vectors()

    def seen(h: Tensor) -> Tensor:
        return F.normalize(F.pad(h, (0, 400 - SIZE)) + SHARE * (h @ m.T) @ W, dim=1)

    f_hat, h_hat = seen(F.normalize(asked.flatten(1), dim=1) - centre), seen(means - centre)
    near = (f_hat @ h_hat.T).argmax(dim=1)
    expected = (f_hat + W[near] - h_hat[near]) @ W.T
    torch.testing.assert_close(learner.scores(asked), expected, rtol=1e-3, atol=1e-4)


def test_the_means_are_of_all_samples_and_not_of_those_in_memory() -> None:
    x, y = features(90)
    learner = on_embeddings()
    learner.observe(x, y)
    unit = F.normalize(x.flatten(1), dim=1)
    assert learner.means is not None
    for c in range(3):
        torch.testing.assert_close(learner.means.means[c], unit[y == c].mean(dim=0))


def test_means_are_seen_through_the_projection_as_it_is_now() -> None:
    x, y = features(30)
    learner = on_embeddings(iterations=2)
    learner.observe(x, y)
    before = learner.pairs()[0].clone()
    learner.observe(x, y)
    assert not torch.allclose(learner.pairs()[0], before)
    torch.testing.assert_close(learner.pairs()[0].norm(dim=1), torch.ones(3))


@pytest.mark.parametrize(("projection", "hidden"), [("means", 0), ("random", 16)])
def test_one_pass_of_samples_and_means_gives_the_scores_of_two(
    projection: str, hidden: int
) -> None:
    learner = on_embeddings(projection=projection, hidden=hidden, iterations=1)
    x, y = features(15, classes=4)
    learner.observe(x, y)
    expected = learner.corrected(learner.features(x)) @ learner.vectors().T
    torch.testing.assert_close(learner.scores(x), expected)


def test_what_corrects_on_features_is_means_alone() -> None:
    x, y = features(30)
    learner = on_embeddings(iterations=1)
    learner.observe(x, y)
    f_hat = learner.features(x)
    ways = learner.corrected_in_every_way(f_hat)
    assert list(ways) == ["uncorrected", "means"]
    assert torch.equal(ways["uncorrected"], f_hat)
    assert torch.equal(ways["means"], learner.corrected(f_hat))
    assert not torch.allclose(ways["means"], f_hat)


def test_it_holds_means_instead_of_stored_features() -> None:
    x, y = features(30)
    learner = on_embeddings()
    learner.observe(x, y)
    held = bytes_held(learner)
    assert held["means"] == 3 * SIZE * 4 + 3 * 8
    assert "residuals" not in held


def test_a_backbone_that_learns_cannot_have_means(make: Callable[..., Learner]) -> None:
    with pytest.raises(InvalidSetting, match="residual_source=refresh"):
        make("earl", residual_source="means")


@pytest.mark.parametrize("negative", ["rotation", "permutation", "cutmix"])
def test_embeddings_have_no_pixels_to_move(negative: str) -> None:
    with pytest.raises(InvalidSetting, match="preparatory=false"):
        on_embeddings(preparatory=True, negative=negative)
