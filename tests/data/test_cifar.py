"""CIFAR in its four layouts: the same images from each, and whole ones."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datasets_trees import (
    NAMES10,
    cifar_arrays,
    source,
    write_cifar10_binary,
    write_cifar10_python,
    write_cifar100_binary,
    write_cifar100_python,
    write_parquet,
)
from earl.data.sets import cifar, parquet
from earl.data.setups import gaussian
from earl.data.streams import Stream
from earl.errors import DataNotFound, InvalidInput, InvalidSetting
from pictures import encoded


def as_images(rows):
    return torch.from_numpy(rows.reshape(-1, 3, 32, 32))


def write_cifar10_folders(root):
    (x, y), (tx, ty) = cifar_arrays(10)
    for split, rows, labels in (("train", x, y), ("test", tx, ty)):
        for n, (row, label) in enumerate(zip(rows, labels, strict=True)):
            path = root / "cifar10" / split / NAMES10[label] / f"{n:05}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(row.reshape(3, 32, 32).transpose(1, 2, 0)).save(path)


def write_cifar10_parquet(root):
    for split, (rows, labels) in zip(("train", "test"), cifar_arrays(10), strict=True):
        data = []
        for row, label in zip(rows, labels, strict=True):
            picture = Image.fromarray(row.reshape(3, 32, 32).transpose(1, 2, 0))
            data.append((encoded(picture), int(label)))
        path = root / "cifar10" / f"{split}-00000-of-00001.parquet"
        write_parquet(path, data, NAMES10, image="img", group=30)


@pytest.mark.parametrize(
    ("write", "layout"),
    [
        (write_cifar10_binary, "binary"),
        (write_cifar10_python, "python"),
        (write_cifar10_parquet, "parquet"),
        (write_cifar10_folders, "train/<class>/<image>"),
    ],
)
def test_cifar10_gives_the_same_images_in_every_layout(write, layout, tmp_path):
    write(tmp_path / "data")
    (x, y), (tx, ty) = cifar_arrays(10)
    for _ in range(2):  # prepared, and from the cache
        data = cifar.cifar10(source(tmp_path))
        assert data.class_names == tuple(NAMES10) and data.mean == cifar.CIFAR10.mean
        assert data.source.endswith(f"({layout})")
        for split, rows, labels in ((data.train, x, y), (data.test, tx, ty)):
            order = np.argsort(labels, kind="stable") if "<class>" in layout else slice(None)
            assert torch.equal(split.labels, torch.from_numpy(labels[order]))
            assert torch.equal(split.images[torch.arange(len(split))], as_images(rows[order]))


@pytest.mark.parametrize("write", [write_cifar100_binary, write_cifar100_python])
def test_cifar100_has_its_fine_labels(write, tmp_path):
    write(tmp_path / "data")
    (x, y), _ = cifar_arrays(100, 40, 100)
    data = cifar.cifar100(source(tmp_path))
    assert len(data.class_names) == 100 and data.class_names[7] == "class_07"
    assert torch.equal(data.train.labels, torch.from_numpy(y))
    assert torch.equal(data.train.images[torch.arange(200)], as_images(x))
    assert "not the whole data set: 200 + 100" in data.notes[0]


def test_missing_data_set_says_where_what_and_how(tmp_path):
    with pytest.raises(DataNotFound) as error:
        cifar.cifar10(source(tmp_path))
    for text in (str(tmp_path / "data"), "cifar-10-batches-bin/", "parquet", "earl data download"):
        assert text in str(error.value)


@pytest.mark.parametrize("write", [write_cifar10_binary, write_cifar10_python])
def test_missing_file_is_named(write, tmp_path):
    folder = write(tmp_path / "data")
    file = next(folder.glob("data_batch_3*"))
    file.unlink()
    with pytest.raises(DataNotFound, match=file.name):
        cifar.cifar10(source(tmp_path))


def test_cut_binary_file_is_named(tmp_path):
    file = write_cifar10_binary(tmp_path / "data") / "data_batch_2.bin"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InvalidInput, match=r"data_batch_2\.bin has 61,360 bytes.*3073"):
        cifar.cifar10(source(tmp_path))


def test_label_that_is_no_class_is_refused(tmp_path):
    file = write_cifar10_binary(tmp_path / "data") / "data_batch_2.bin"
    file.write_bytes(b"\x0b" + file.read_bytes()[1:])
    with pytest.raises(InvalidInput, match="a label 11; cifar10 has 10 classes"):
        cifar.cifar10(source(tmp_path))


def test_image_size_resizes_decoded_images_up_to_64(tmp_path):
    write_cifar10_binary(tmp_path / "data")
    data = cifar.cifar10(source(tmp_path, image_size=16))
    (x, _), _ = cifar_arrays(10)
    first = Image.fromarray(x[0].reshape(3, 32, 32).transpose(1, 2, 0))
    expected = np.asarray(first.resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert torch.equal(data.train.images[torch.tensor([0])][0], torch.from_numpy(expected.copy()))
    with pytest.raises(InvalidSetting, match="at most 64"):
        cifar.cifar10(source(tmp_path, image_size=224))


# Mean and std with which the authors' code normalises, in its tables by data set.
PUBLISHED = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
}


@pytest.mark.parametrize(
    ("name", "write"), [("cifar10", write_cifar10_binary), ("cifar100", write_cifar100_binary)]
)
def test_images_are_normalised_as_the_authors_do(name, write, tmp_path):
    write(tmp_path / "data")
    data = getattr(cifar, name)(source(tmp_path))
    assert (data.mean, data.std) == PUBLISHED[name]


# ---- the real ones -------------------------------------------------------------------------------

PARQUET = Path(__file__).parents[3] / "shared" / "data" / "cifar10"
ORIGINAL = os.environ.get("EARL_TEST_CIFAR10", "")


def check_real(data):
    assert data.train.images.shape == (50_000, 3, 32, 32) and len(data.test) == 10_000
    assert data.class_names == tuple(NAMES10) and not data.notes and not data.skipped
    assert data.train.labels.bincount().tolist() == [5000] * 10
    assert data.test.labels.bincount().tolist() == [1000] * 10
    order = gaussian(data.train, seed=1).order
    assert torch.equal(order.sort().values, torch.arange(50_000))
    stream = Stream(data.train, gaussian(data.train, seed=1))
    x, y = next(iter(stream))
    assert torch.equal(x, data.train.images[order[:1]]) and y == data.train.labels[order[0]]


def own_contrast(data):
    """Return the mean over images of the standard deviation within each, by channel.

    This is what the usual std of CIFAR-10 measures; over all pixels it is a quarter larger.
    """
    pixels = data.train.images[torch.arange(0, 50_000, 10)].double() / 255
    return pixels.std((2, 3)).mean(0).tolist()


@pytest.mark.slow
@pytest.mark.skipif(not PARQUET.is_dir(), reason=f"no CIFAR-10 in {PARQUET}")
def test_real_cifar10_from_parquet(tmp_path):
    seen = []
    made = source(tmp_path, path=str(PARQUET), progress=lambda *p: seen.append(p))
    data = parquet.load(made)
    check_real(data)
    assert seen[-1][1:] == (10_000, 10_000)
    assert data.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=0.01)
    assert cifar.CIFAR10.mean == pytest.approx(data.mean, abs=0.01)
    assert cifar.CIFAR10.std == pytest.approx(own_contrast(data), abs=0.01)


@pytest.mark.skipif(not ORIGINAL, reason="EARL_TEST_CIFAR10 names no folder with CIFAR-10")
def test_real_cifar10_in_its_authors_layout(tmp_path):
    data = cifar.cifar10(source(tmp_path, root=Path(ORIGINAL)))
    check_real(data)
    pixels = data.train.images[torch.arange(0, 50_000, 10)].double() / 255
    assert pixels.mean((0, 2, 3)).tolist() == pytest.approx((0.4914, 0.4822, 0.4465), abs=0.005)
    assert data.std == pytest.approx(own_contrast(data), abs=0.005)
