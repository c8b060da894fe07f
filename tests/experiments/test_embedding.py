"""Embeddings: a data set encoded once, streams of it, and runs behind a frozen backbone."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from earl.data.dataset import Dataset
from earl.data.sets import embeddings
from earl.errors import DataNotFound, EarlError, InvalidSetting, NotFinite
from earl.experiments import embedding, learners
from earl.experiments.embedding import embed
from earl.experiments.experiment import Experiment
from earl.experiments.loading import load_data
from earl.experiments.prepare import rehearse
from earl.experiments.runs.directory import RunDirectory
from earl.learning.bytes_held import bytes_held
from earl.learning.encoded import Encoded
from earl.nn import ResNet, View, build
from earl.nn.backbones import Backbone
from earl.randomness import Randomness
from small_runs import stop
from snapshots import flip_bit

SIZE = 16


def backbone(network: nn.Module | None = None) -> Backbone:
    """Return a small network in the place of a large one that was trained before."""
    small = build(lambda: ResNet(depth=8, width=4), Randomness(3).at(0, "backbone"))
    view = View((0.5,) * 3, (0.25,) * 3)
    return Backbone("small", (network or small).eval(), view, SIZE, "nothing", 8)


@pytest.fixture(scope="module")
def folder(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("embedded") / "shapes"
    embed(dataset, backbone(), out)
    return out


def on(folder: Path, method: str = "ncm", **settings: bool | int | float | str) -> Experiment:
    settings = {"every": 40, "tasks": 2, **settings}
    return Experiment(
        method=method, dataset=f"embeddings:{folder}", stream="disjoint", settings=settings
    )


def test_embeddings_are_what_the_backbone_makes_of_each_image(
    folder: Path, dataset: Dataset
) -> None:
    found, other = load_data(f"embeddings:{folder}"), backbone()
    assert found.embedded and found.image_shape == (SIZE, 1, 1)
    assert found.class_names == dataset.class_names
    rows = torch.arange(0, len(dataset.train), 9)
    with torch.inference_mode():
        expected = other.network(other.view(dataset.train.images[rows]))
    torch.testing.assert_close(found.train.images[rows].flatten(1), expected)
    for split in ("train", "test"):
        assert torch.equal(getattr(found, split).labels, getattr(dataset, split).labels)


def test_progress_counts_every_image(dataset: Dataset, tmp_path: Path) -> None:
    seen = []
    embed(dataset, backbone(), tmp_path / "x", progress=lambda *told: seen.append(told))
    total = len(dataset.train) + len(dataset.test)
    assert seen == [("encode", n, total) for n in range(1, total + 1)]


def test_time_buckets_come_along(dataset: Dataset, tmp_path: Path) -> None:
    bucket = torch.arange(len(dataset.train)) % 3
    timed = replace(dataset, train=replace(dataset.train, domains=bucket))
    embed(timed, backbone(), tmp_path / "x")
    found = load_data(f"embeddings:{tmp_path / 'x'}")
    assert found.train.domains is not None and torch.equal(found.train.domains, bucket)
    assert found.test.domains is None


def test_nothing_is_overwritten(folder: Path, dataset: Dataset) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    with pytest.raises(InvalidSetting, match="exists already"):
        embed(dataset, backbone(), folder)
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_embeddings_are_not_encoded_again(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="embeddings already"):
        embed(load_data(f"embeddings:{folder}"), backbone(), tmp_path / "x")


class Nan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :SIZE] * float("nan")


def test_a_backbone_that_makes_nan_is_refused_and_leaves_nothing(
    dataset: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(NotFinite, match="nan or infinity"):
        embed(dataset, backbone(Nan()), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


class Stopped(Exception):
    """Somebody stops it."""


def test_what_was_stopped_goes_on_and_encodes_no_image_twice(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "FIRST", 10)
    seen = Seen()

    def stop(what: str, done: int, total: int) -> None:
        if done == 20:
            raise Stopped

    with pytest.raises(Stopped):
        embed(dataset, backbone(seen), tmp_path / "x", progress=stop)
    assert not (tmp_path / "x").exists()
    before = seen.shown
    found = embed(dataset, backbone(seen), tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    images = [dataset.train.images[torch.arange(len(dataset.train))]]
    images += [dataset.test.images[torch.arange(len(dataset.test))]]
    different = {image.numpy().tobytes() for split in images for image in split}
    assert seen.shown - before <= len(different) - 15 + 2  # a blank pair finds the size
    whole = embed(dataset, backbone(Seen()), tmp_path / "y")
    for split in ("train", "test"):
        assert torch.equal(getattr(found, split).images, getattr(whole, split).images)


class Seen(nn.Module):
    """Counts the images that it makes features of."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = 0

    def forward(self, x: Tensor) -> Tensor:
        self.shown += len(x)
        return x.flatten(1)[:, :SIZE]


def other_kind(folder: Path) -> None:
    facts = json.loads((folder / embeddings.MANIFEST).read_bytes())
    facts.pop("sha256")
    manifest = embeddings.write_manifest(facts | {"kind": "earl embeddings 9"})
    (folder / embeddings.MANIFEST).write_bytes(manifest)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a bit of the features": lambda folder: flip_bit(folder / "train.features.npy"),
    "a bit of the labels": lambda folder: flip_bit(folder / "test.labels.npy"),
    "a missing file": lambda folder: (folder / "test.features.npy").unlink(),
    "a manifest that was edited": lambda folder: flip_bit(folder / "manifest.json"),
    "a later version": other_kind,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_told_in_one_line(
    damage: Callable[[Path], None], dataset: Dataset, tmp_path: Path
) -> None:
    embed(dataset, backbone(), tmp_path / "x")
    damage(tmp_path / "x")
    with pytest.raises(EarlError, match="damaged or of another version") as told:
        load_data(f"embeddings:{tmp_path / 'x'}")
    assert "\n" not in str(told.value)


def test_a_folder_without_embeddings_says_how_to_write_some(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="earl data embed"):
        load_data(f"embeddings:{tmp_path}")


@pytest.mark.parametrize("method", ["ncm", "slda", "ranpac", "knn", "earl", "vanilla-etf", "er"])
def test_every_method_runs_on_embeddings_and_learns(
    method: str, folder: Path, tmp_path: Path
) -> None:
    few: dict[str, int | float] = {"ranpac": {"projected": 100}, "earl": {"d": 32}}.get(method, {})
    experiment = on(folder, method, lr=0.03, **few)
    rehearse(experiment)
    run = RunDirectory(tmp_path / "run", experiment)
    *_, last = run.run(device="cpu", threads=1)
    assert last.evaluation is not None
    assert sum(last.evaluation.correct.values()) > 0.5 * sum(last.evaluation.total.values())


def test_a_run_on_embeddings_goes_on_exactly(folder: Path, tmp_path: Path) -> None:
    whole = RunDirectory(tmp_path / "whole", on(folder, "earl", d=32))
    *_, last = whole.run(device="cpu", threads=1)
    stop(RunDirectory(tmp_path / "halves", on(folder, "earl", d=32)), 60, snapshot_seconds=0)
    *_, again = RunDirectory(tmp_path / "halves").run(device="cpu", threads=1)
    assert again == last


@pytest.mark.parametrize("match", ["flops", "bytes"])
def test_budgets_can_be_matched_on_embeddings(match: str, folder: Path) -> None:
    experiment = replace(on(folder, "er"), match=match, to="er-memory-only")
    run = experiment.build()
    budget = run.budget["memory_size" if match == "bytes" else "flops"]
    assert budget > 0


def frozen(method: str, **settings: bool | int | float | str) -> Experiment:
    chosen = {"backbone": "efficientnet-lite0", "frozen": True, **settings}
    return Experiment(method=method, dataset="shapes", stream="disjoint", settings=chosen)


def test_behind_a_frozen_backbone_a_run_keeps_features(
    monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    monkeypatch.setattr(learners, "open_backbone", lambda name: backbone())
    run = frozen("er", memory_size=9).build(dataset=dataset)
    assert isinstance(run.learner, Encoded)
    run.learner.observe(dataset.train.images[torch.arange(20)], dataset.train.labels[:20])
    assert bytes_held(run.learner)["images"] == 9 * SIZE * 4
    assert run.learner.encode.remembered > len(dataset.test)


def test_behind_a_frozen_backbone_earl_has_the_settings_of_embeddings() -> None:
    behind, alone = frozen("earl").values(), on(Path("x"), "earl").values()
    for name in ("preparatory", "hidden", "projection", "residual_source", "tau"):
        assert behind[name] == alone[name]
    usual = Experiment(method="earl", dataset="shapes", stream="disjoint").values()
    assert usual["preparatory"] is True and usual["residual_source"] == "train"


def test_a_pretrained_backbone_can_be_trained_along(
    monkeypatch: pytest.MonkeyPatch, dataset: Dataset
) -> None:
    monkeypatch.setattr(learners, "open_backbone", lambda name: backbone())
    run = frozen("er", frozen=False).build(dataset=dataset)
    assert not isinstance(run.learner, Encoded)
    before = run.learner.network.backbone.stem[0].weight.detach().clone()
    rows = torch.arange(20) * 7
    run.learner.observe(dataset.train.images[rows], dataset.train.labels[rows])
    assert not torch.equal(run.learner.network.backbone.stem[0].weight, before)
    assert run.learner.setting.view == backbone().view


WRONG: dict[str, tuple[dict[str, bool | str], str]] = {
    "random weights": ({"frozen": True}, "random weights"),
    "an unknown name": ({"backbone": "efficientnet", "frozen": True}, "did you mean"),
    "hf not frozen": ({"backbone": "hf:some/model"}, "frozen=true"),
}


@pytest.mark.parametrize(("settings", "told"), WRONG.values(), ids=WRONG)
def test_a_backbone_that_cannot_be_is_one_clear_line(
    settings: dict[str, bool | str], told: str
) -> None:
    experiment = Experiment(method="er", dataset="shapes", stream="iid", settings=settings)
    with pytest.raises(EarlError, match=told) as error:
        rehearse(experiment)
    assert "\n" not in str(error.value)


def test_embeddings_take_no_backbone(folder: Path) -> None:
    with pytest.raises(InvalidSetting, match="come from a backbone"):
        rehearse(on(folder, "er", backbone="efficientnet-lite0"))


def test_methods_that_freeze_blocks_keep_their_own_setting() -> None:
    names = Experiment(method="remind", dataset="shapes", stream="iid").options().names()
    assert "frozen" in names and "backbone" not in names
