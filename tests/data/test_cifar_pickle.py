"""CIFAR's python version: its pickles are read, and nothing that a hostile one says is done."""

import contextlib
import os
import pickle
import struct
import tracemalloc

import numpy as np
import pytest

from datasets_trees import dump, source, write_cifar10_python
from earl.data.sets import cifar, cifar_pickle
from earl.errors import InvalidInput


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
    b"\x80\x05\x96" + struct.pack("<Q", 1 << 28) + b".",  # one that would be granted
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


@pytest.mark.parametrize("data", [*EVIL, *FORGED], ids=range(len(EVIL) + len(FORGED)))
def test_no_number_in_a_pickle_asks_for_memory(data, tmp_path):
    (tmp_path / "batch").write_bytes(data)
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidInput):
            cifar_pickle.read_batch(tmp_path / "batch")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(data) + (1 << 20)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar_pickle, "Unpickler", lambda *_, **__: pytest.fail("it was opened"))
    (tmp_path / "batch").touch()
    os.truncate(tmp_path / "batch", cifar_pickle.LARGEST + 1)  # a hole: it takes no disk
    with pytest.raises(InvalidInput, match=r"batch has 268435457 bytes, more than 268435456"):
        cifar_pickle.read_batch(tmp_path / "batch")


def test_an_operation_that_such_files_do_not_use_is_named(tmp_path):
    (tmp_path / "batch").write_bytes(b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".")
    with pytest.raises(InvalidInput, match="the operation 150, which such files do not use"):
        cifar_pickle.read_batch(tmp_path / "batch")


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
    for number in range(300):
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
    assert 60 < refused < 300


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
