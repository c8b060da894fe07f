"""Methods on fixed features beside independent closed forms of NumPy and scikit-learn."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from earl.errors import InvalidInput, InvalidSetting
from earl.experiments.catalogue import METHODS
from earl.learning import Learner
from earl.learning.bytes_held import bytes_held
from earl.methods.embeddings.closed_form import SecondMoment
from plain_setting import of_features

SIZE = 6
NAMES = ("ncm", "slda", "ranpac", "knn")


def on_embeddings(name: str, size: int = SIZE, memory_size: int = 500, **given: object) -> Learner:
    """Return a learner on embeddings of this size."""
    return METHODS[name](nn.Flatten(), of_features(size, memory_size=memory_size), **given)


def blobs(n: int, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return positive features (n, SIZE) of overlapping classes, and labels (n,)."""
    draw = np.random.default_rng(seed)
    y = draw.integers(classes, size=n)
    y[:classes] = np.arange(classes)
    mixing = draw.normal(size=(SIZE, SIZE))
    h = draw.normal(size=(classes, SIZE))[y] * 1.5 + 0.7 * draw.normal(size=(n, SIZE)) @ mixing
    return torch.from_numpy(np.abs(h)).float(), torch.from_numpy(y)


def images(h: Tensor) -> Tensor:
    return h[:, :, None, None]


def taught(name: str, h: Tensor, y: Tensor, **given: object) -> Learner:
    learner = on_embeddings(name, **given)
    for h_i, y_i in zip(images(h).split(7), y.split(7), strict=True):
        learner.observe(h_i, y_i)
    return learner


@pytest.mark.parametrize("seed", range(3))
def test_ncm_by_distance_is_scikit_learns_nearest_centroid(seed: int) -> None:
    centroid = pytest.importorskip("sklearn.neighbors").NearestCentroid()
    h, y = blobs(80, seed=seed)
    learner = taught("ncm", h, y, distance="euclidean")
    asked, _ = blobs(50, seed=seed + 10)
    expected = centroid.fit(h.numpy(), y.numpy()).predict(asked.numpy())
    assert learner.predict(images(asked)).tolist() == expected.tolist()
    d = np.linalg.norm(asked.numpy()[:, None] - centroid.centroids_[None], axis=2)
    ours = learner.scores(images(asked))[:, learner.classes.numbers(torch.arange(3))]
    np.testing.assert_allclose(ours.numpy(), -(d**2) / 2, rtol=1e-3, atol=1e-4)


def test_ncm_by_angle_compares_with_the_mean_of_unit_features() -> None:
    h, y = blobs(60)
    learner = taught("ncm", h, y)
    unit = h.numpy() / np.linalg.norm(h.numpy(), axis=1, keepdims=True)
    asked = blobs(20, seed=5)[0].numpy()
    for c in range(3):
        mean = unit[y.numpy() == c].mean(axis=0)
        cosine = asked @ mean / np.linalg.norm(asked, axis=1) / np.linalg.norm(mean)
        column = int(learner.classes.numbers(torch.tensor([c])))
        found = learner.scores(images(torch.from_numpy(asked)))[:, column].numpy()
        np.testing.assert_allclose(found, cosine, rtol=1e-5)


@given(st.permutations(range(12)))
def test_the_order_of_the_samples_does_not_change_the_means(order: list[int]) -> None:
    h, y = blobs(12)
    one, other = taught("ncm", h, y), taught("ncm", h[list(order)], y[list(order)])
    for c in range(3):
        rows = [int(learner.classes.numbers(torch.tensor([c]))) for learner in (one, other)]
        torch.testing.assert_close(one.vectors()[rows[0]], other.vectors()[rows[1]])


@pytest.mark.parametrize("shrinkage", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("block", [1, 64])
def test_slda_is_discriminant_analysis_in_closed_form(shrinkage: float, block: int) -> None:
    """Of NumPy: pooled covariance around the class means, equal priors."""
    h, y = blobs(90)
    learner = taught("slda", h, y, shrinkage=shrinkage, block=block)
    learner.finish()
    x, labels = h.double().numpy(), y.numpy()
    means = np.stack([x[labels == c].mean(axis=0) for c in range(3)])
    off = x - means[labels]
    sigma = off.T @ off / len(x)
    sigma = (1 - shrinkage) * sigma + shrinkage * np.trace(sigma) / SIZE * np.eye(SIZE)
    asked = blobs(40, seed=7)[0]
    gap = asked.double().numpy()[:, None] - means[None]
    distances = np.einsum("bcs,bcs->bc", gap @ np.linalg.inv(sigma), gap)
    ours = learner.scores(images(asked))[:, learner.classes.numbers(torch.arange(3))].numpy()
    np.testing.assert_allclose(
        ours - ours[:, :1], (distances[:, :1] - distances) / 2, rtol=1e-3, atol=1e-3
    )


def test_slda_answers_as_scikit_learns_discriminant_analysis() -> None:
    analysis = pytest.importorskip("sklearn.discriminant_analysis").LinearDiscriminantAnalysis
    h, y = blobs(200)
    order = y.argsort(stable=True)
    rows = torch.cat([part[:50] for part in order.split(y.bincount().tolist())])  # 50 of each
    h, y = h[rows], y[rows]
    learner = taught("slda", h, y, shrinkage=1e-9)
    learner.finish()
    asked = blobs(100, seed=3)[0]
    theirs = analysis(solver="lsqr", priors=[1 / 3] * 3).fit(h.numpy(), y.numpy())
    assert learner.predict(images(asked)).tolist() == theirs.predict(asked.numpy()).tolist()


def test_slda_before_a_second_sample_is_the_nearest_mean() -> None:
    """With one sample of each class nothing is known of a covariance."""
    h, y = blobs(3)
    asked = images(blobs(30, seed=2)[0])
    slda, ncm = taught("slda", h, y), taught("ncm", h, y, distance="euclidean")
    assert slda.predict(asked).tolist() == ncm.predict(asked).tolist()


@pytest.mark.parametrize("block", [1, 64])
def test_ranpac_is_ridge_regression_on_the_projected_features(block: int) -> None:
    ridge_of = pytest.importorskip("sklearn.linear_model").Ridge
    h, y = blobs(70)
    learner = taught("ranpac", h, y, projected=40, ridge=5.0, block=block)
    learner.finish()
    P = learner.projection.P.double().numpy()
    phi = np.maximum(h.double().numpy() @ P, 0)
    penalty = 5.0 * (phi**2).mean()
    theirs = ridge_of(alpha=penalty, fit_intercept=False).fit(phi, np.eye(3)[y.numpy()])
    asked = blobs(30, seed=4)[0]
    expected = theirs.predict(np.maximum(asked.double().numpy() @ P, 0))
    ours = learner.scores(images(asked))[:, learner.classes.numbers(torch.arange(3))]
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_ranpac_answers_a_new_class_at_once() -> None:
    h, y = blobs(100, classes=2)
    learner = taught("ranpac", h, y, projected=40, ridge=1e-3)
    far = torch.full((1, SIZE), 30.0)
    learner.observe(images(far), torch.tensor([9]))
    assert learner.predict(images(far)).tolist() == [9]


@pytest.mark.parametrize("neighbours", [1, 5, 500])
def test_knn_votes_as_scikit_learns_neighbours_do(neighbours: int) -> None:
    KNeighbors = pytest.importorskip("sklearn.neighbors").KNeighborsClassifier
    h, y = blobs(60)
    learner = taught("knn", h, y, neighbours=neighbours)

    def weights(distances: np.ndarray) -> np.ndarray:
        return np.exp((1 - distances) / 0.07)

    k = min(neighbours, 60)
    theirs = KNeighbors(k, weights=weights, metric="cosine").fit(h.numpy(), y.numpy())
    asked = blobs(40, seed=6)[0]
    ours = learner.scores(images(asked))[:, learner.classes.numbers(torch.arange(3))]
    np.testing.assert_allclose(
        ours.numpy(), theirs.predict_proba(asked.numpy()), rtol=1e-3, atol=1e-4
    )


def test_knn_keeps_no_more_than_its_memory_holds() -> None:
    h, y = blobs(60)
    learner = taught("knn", h, y, memory_size=9)
    assert bytes_held(learner)["features"] == 9 * SIZE * 4
    assert sorted(learner.memory.counts.tolist()) == [3, 3, 3]


@given(st.integers(1, 40), st.integers(1, 90))
def test_a_second_moment_never_lags_by_more_than_an_eighth_or_a_block(block: int, n: int) -> None:
    draw = torch.Generator().manual_seed(block * 100 + n)
    V = torch.randn(n, 4, generator=draw)
    moment = SecondMoment(4, block)
    for v in V:
        moment.add(v)
        assert moment.waits < max(1, min(block, max(1, moment.count // 8)))
    settled = V[: moment.count].double()
    torch.testing.assert_close(moment.sum.double(), settled.T @ settled, rtol=1e-4, atol=1e-4)
    assert moment.count + moment.waits == n


def test_bytes_are_what_the_pages_say() -> None:
    """Means 4·n·s; SLDA a covariance of 4·s²; RanPAC a Gram matrix, a projection and totals."""
    h, y = blobs(40)

    def held(name: str, **given: object) -> dict[str, int]:
        learner = taught(name, h, y, **given)
        learner.finish()
        return bytes_held(learner)

    counts = 3 * 8
    assert held("ncm") == {"means": 3 * SIZE * 4 + counts}
    assert held("slda") == {"means": 3 * SIZE * 4 + counts, "scatter": SIZE**2 * 4}
    projection, gram = SIZE * 40 * 4, 40**2 * 4 + 3 * 40 * 4
    assert held("ranpac", projected=40) == {"network": projection, "gram": gram}


WRONG: dict[str, tuple[str, dict[str, object]]] = {
    "shrinkage 0": ("slda", {"shrinkage": 0.0}),
    "shrinkage 2": ("slda", {"shrinkage": 2.0}),
    "block": ("slda", {"block": 0}),
    "projected": ("ranpac", {"projected": 0}),
    "a block of ranpac": ("ranpac", {"block": 0}),
    "ridge": ("ranpac", {"ridge": 0.0}),
    "neighbours": ("knn", {"neighbours": 0}),
    "temperature": ("knn", {"temperature": 0.0}),
}


@pytest.mark.parametrize(("name", "given"), WRONG.values(), ids=WRONG)
def test_settings_out_of_range_are_refused(name: str, given: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting, match="must be"):
        on_embeddings(name, **given)


def test_a_gram_matrix_that_cannot_fit_is_refused_before_it_is_made() -> None:
    with pytest.raises(InvalidSetting, match="projected = 10000000"):
        on_embeddings("ranpac", projected=10_000_000)


BAD: dict[str, Callable[[Tensor], object]] = {
    "bytes": lambda x: x.to(torch.uint8),
    "float64": lambda x: x.double(),
    "an array": lambda x: x.numpy(),
    "a matrix": lambda x: x.flatten(1),
    "another length": lambda x: x[:, 1:],
    "none": lambda x: x[:0],
    "NaN": lambda x: torch.full_like(x, float("nan")),
    "infinite": lambda x: x / 0,
    "sparse": lambda x: x.to_sparse(),
}


@pytest.mark.parametrize("name", [*NAMES, "er"])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_are_no_embeddings_is_refused(name: str, bad: Callable[[Tensor], object]) -> None:
    learner = on_embeddings(name)
    x = images(torch.ones(2, SIZE))
    with pytest.raises(InvalidInput, match="embeddings"):
        learner.observe(bad(x), torch.tensor([0, 1]))
    with pytest.raises(InvalidInput, match="embeddings"):
        learner.predict(bad(x))
