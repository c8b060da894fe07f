"""CIFAR in its four layouts: the same images from each, whole ones, and no code from pickles."""

import io
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datasets_trees import (
    NAMES10,
    cifar_arrays,
    dump,
    source,
    write_cifar10_binary,
    write_cifar10_python,
    write_cifar100_binary,
    write_cifar100_python,
    write_parquet,
)
from earl.data.sets import cifar, cifar_pickle, parquet
from earl.data.streams import Stream, gaussian
from earl.errors import DataNotFound, InvalidInput, InvalidSetting


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
            out = io.BytesIO()
            Image.fromarray(row.reshape(3, 32, 32).transpose(1, 2, 0)).save(out, "PNG")
            data.append((out.getvalue(), int(label)))
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


# ---- pickles -------------------------------------------------------------------------------------


class Evil:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


EVIL = [
    *(pickle.dumps(Evil(os.system, "touch evil"), protocol=p) for p in range(6)),
    *(pickle.dumps(Evil(eval, "1"), protocol=p) for p in (0, 2, 4)),
    pickle.dumps(Evil(__import__, "os"), protocol=2),
    pickle.dumps(Evil(np.load, "x.npy"), protocol=2),
    pickle.dumps(Evil(np.fromfile, "x"), protocol=2),
    pickle.dumps(Evil(getattr, "x", "y"), protocol=2),
    pickle.dumps({"data": Evil(os.system, "touch evil")}, protocol=2),
    b"cnumpy.testing\n_private\n.",
    b"cnumpy.core.multiarray\nscalar\n.",
    b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__class__\x93.",  # a dotted name
    b"\x80\x02\x82\x01.",  # the extension registry
    b"\x80\x02X\x01\x00\x00\x00aQ.",  # a persistent id
]


@pytest.mark.parametrize("data", EVIL, ids=range(len(EVIL)))
def test_pickle_that_asks_for_anything_else_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "batch").write_bytes(data)
    with pytest.raises(InvalidInput, match=r"batch is not a file of CIFAR's python version"):
        cifar_pickle.read_batch(tmp_path / "batch")
    assert not (tmp_path / "evil").exists()


def test_evil_pickles_do_act_when_they_are_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(EVIL[0])  # the control
    assert (tmp_path / "evil").exists()


DEEP = b")" + b"q\x00h\x00\x86" * 18  # a tuple of the same tuple twice, 18 times over


def array_of_shape(shape):
    """Return a batch with an image whose shape is spelled out in the pickle's own language."""
    return (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01" + shape + b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R\x89U\x01xtbU\x06labels]K\x07au."
    )


FORGED = [
    b"",
    b".",
    b"\x80\x02}.",
    b"\x80\x02]" + b"(" * 10_000 + b".",
    b"\x80\x02K\x01r\xff\xff\xff\x7f.",  # a memo of 2 ** 31 entries
    b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b".",  # bytes of four exabytes
    b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b".",
    pickle.dumps([1, 2], protocol=2),
    pickle.dumps({"data": np.zeros((2, 3072), np.int64), "labels": [1, 2]}, protocol=2),
    pickle.dumps({"data": np.zeros((2, 3000), np.uint8), "labels": [1, 2]}, protocol=2),
    pickle.dumps({"data": np.array([{}, []], dtype=object), "labels": [1, 2]}, protocol=2),
    pickle.dumps({"data": "text", "labels": [1, 2]}, protocol=2),
    pickle.dumps({"labels": [1, 2]}, protocol=2),
    b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".",  # an array of a terabyte
    b"\x80\x05\x97.",  # a buffer from elsewhere
    b"\x80\x02c_codecs\nencode\nK\x01K\x02\x86R.",
    b"\x80\x02c_codecs\nencode\n}b.",
    b"\x80\x02cnumpy\nndarray\n}b.",
    b"\x80\x02]K\x01K\x02s.",
    b"\x80\x02K\x01)R.",
    pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 1 << 100]}, protocol=2),
    array_of_shape(DEEP),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("data", FORGED, ids=range(len(FORGED)))
def test_forged_pickle_is_an_error_of_ours(data, tmp_path):
    folder = write_cifar10_python(tmp_path / "data")
    (folder / "data_batch_1").write_bytes(data)
    with pytest.raises(InvalidInput, match="data_batch_1") as error:
        cifar.cifar10(source(tmp_path))
    assert len(str(error.value)) < 1000  # also of a shape that would print for ages


@pytest.mark.parametrize(
    "data", [b"}(" + DEEP + b"K\x01u.", b"}" + DEEP + b"K\x01s.", b"(" + DEEP + b"K\x01d."]
)
def test_a_key_is_text_since_others_might_hash_for_ages(data, tmp_path):
    (tmp_path / "batch").write_bytes(b"\x80\x02" + data)
    with pytest.raises(InvalidInput, match="a key of its dictionary is no text"):
        cifar_pickle.read_batch(tmp_path / "batch")


@pytest.mark.timeout(60)
def test_a_damaged_pickle_is_read_or_refused(tmp_path):
    """Whatever bytes a file has: it is a batch, or an error of ours says that it is none."""
    batch = {"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2], "names": ["a", "b"]}
    generator = np.random.default_rng(0)
    refused = 0
    for number in range(1500):
        data = bytearray(pickle.dumps(batch, protocol=number % 5))
        places = [n for n in range(len(data)) if n < 250 or n > len(data) - 80]
        for _ in range(1 + number % 3):
            data[generator.choice(places)] = generator.integers(256)
        (tmp_path / "batch").write_bytes(data)
        try:
            read = cifar_pickle.read_batch(tmp_path / "batch")
            assert cifar_pickle.pixels(read, tmp_path).shape[1:] == (3, 32, 32)
            np.array(cifar_pickle.class_ids(read, "labels", tmp_path), np.int64)
        except InvalidInput:
            refused += 1
    assert 300 < refused < 1500


@pytest.mark.parametrize("protocol", range(5))
def test_pickles_of_every_protocol_that_such_files_may_have_are_read(protocol, tmp_path):
    raw = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    dump(tmp_path / "batch", {"data": raw, "labels": [1, 2]}, protocol)
    read = cifar_pickle.read_batch(tmp_path / "batch")
    assert (cifar_pickle.pixels(read, tmp_path).reshape(2, 3072) == raw).all()


@pytest.mark.parametrize(
    "change", [{"labels": [1]}, {"labels": [1] * 19 + ["x"]}, {"labels": [1] * 19 + [10]}]
)
def test_wrong_labels_in_a_pickle_are_refused(change, tmp_path):
    file = write_cifar10_python(tmp_path / "data") / "data_batch_1"
    dump(file, pickle.loads(file.read_bytes()) | change)
    with pytest.raises(InvalidInput, match="data_batch_1"):
        cifar.cifar10(source(tmp_path))


def test_pickle_of_python_2_is_read(tmp_path):
    """The originals hold byte strings as keys and NumPy's old module names."""
    raw = bytes(range(256)) * 12  # 3072
    data = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<I", 3072) + raw + b"tbU\x06labels]K\x07au."
    )
    (tmp_path / "batch").write_bytes(data)
    batch = cifar_pickle.read_batch(tmp_path / "batch")
    assert cifar_pickle.class_ids(batch, "labels", tmp_path) == [7]
    assert cifar_pickle.pixels(batch, tmp_path).tobytes() == raw
    assert pickle.loads(data, encoding="bytes")[b"data"].tobytes() == raw  # the oracle agrees


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
