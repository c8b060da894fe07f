"""What may be learned: images and vectors as people have them, and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from earl.errors import EarlError, InvalidInput
from earl.estimator.images import ImageReader
from earl.estimator.vectors import VectorReader
from estimators import TRAIN, blobs, of_images, of_vectors

READER = ImageReader(8)
PICTURE = np.random.default_rng(1).integers(256, size=(8, 8, 3), dtype=np.uint8)
RAW = torch.from_numpy(PICTURE).permute(2, 0, 1)


def test_every_form_of_an_image_is_the_same_image(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.fromarray(PICTURE).save(path)
    forms = [
        *(PICTURE, PICTURE.transpose(2, 0, 1), RAW, RAW.permute(1, 2, 0), Image.fromarray(PICTURE)),
        *(path, str(path), path.read_bytes(), {"image": PICTURE}, PICTURE / 255, RAW / 255),
        *((PICTURE / 255).astype(np.float32), np.asfortranarray(PICTURE)),
    ]
    for form in forms:
        assert torch.equal(READER.read([form])[0], RAW), type(form)


def test_grey_and_transparent_images_become_rgb() -> None:
    grey = PICTURE[:, :, 0]
    for form in (grey, grey[:, :, None], grey[None], Image.fromarray(grey)):
        assert torch.equal(READER.read([form])[0], torch.from_numpy(grey).expand(3, 8, 8))
    clear = np.dstack([PICTURE, np.zeros((8, 8, 1), np.uint8)])
    assert (READER.read([clear]) == 255).all()  # laid on white


def test_where_both_sides_could_be_channels_each_library_has_its_way() -> None:
    array = np.arange(3 * 5 * 3, dtype=np.uint8).reshape(3, 5, 3)
    last = READER.read([array])
    assert torch.equal(last, READER.read([Image.fromarray(array)]))
    first = READER.read([torch.from_numpy(array)])
    assert torch.equal(first, READER.read([np.ascontiguousarray(array.transpose(1, 2, 0))]))


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (64, 48)])
def test_images_of_any_size_are_resized(size: tuple[int, int]) -> None:
    image = np.full((*size, 3), 77, np.uint8)
    assert (READER.read([image]) == 77).all()


@pytest.mark.parametrize(
    "bad",
    [
        *(None, 3, [[1, 2]], np.zeros(5), np.zeros((2, 2, 2, 3)), np.zeros((0, 4, 3), np.uint8)),
        *(np.zeros((5, 5, 2), np.uint8), np.zeros((4, 4, 3), np.int64), np.full((4, 4, 3), 1.5)),
        *(np.full((4, 4), np.nan), np.zeros((4, 4, 3), bool), "missing.png", b"no image", {"x": 1}),
        *(np.array([["a"]]), torch.zeros(3, 4, 4).to_sparse(), "a\0b", np.zeros((4, 4), complex)),
        torch.zeros(3, 4, 4, device="meta"),
    ],
)
def test_what_is_no_image_is_refused(bad: Any) -> None:
    with pytest.raises((EarlError, ValueError)) as refused:
        READER.read([bad])
    assert isinstance(refused.value, EarlError) and isinstance(refused.value, ValueError)


@pytest.mark.parametrize("bad", [PICTURE, "path.png", [], 3, np.zeros((2, 3, 4, 5, 6)), None])
def test_several_images_are_asked_for(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        READER.many(bad)


DTYPES = st.sampled_from(["u1", "i8", "f4", "f8", "?", "c8", "U1", "O", "f2"])


@given(
    DTYPES.flatmap(
        lambda dtype: arrays.arrays(
            dtype,
            arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
            elements=st.integers(0, 3) if dtype == "O" else None,
        )
    ),
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.lists(st.integers())),
)
def test_each_input_is_taken_or_refused_by_an_error_of_ours(x: Any, y: Any) -> None:
    for clf in FRESH:
        before = clf.digest()
        try:
            clf.learn_one(x, y)
        except (EarlError, ValueError) as error:
            assert isinstance(error, EarlError) and isinstance(error, ValueError), repr(error)
            assert clf.digest() == before
        else:
            clf._model = None  # begins anew


FRESH = (of_images(), of_vectors())


@given(st.integers(1, 40))
def test_a_vector_is_read_and_shown_as_it_is(length: int) -> None:
    vector = np.arange(1.0, length + 1)
    reader = VectorReader().meet([vector])
    x = reader.read([vector])
    assert tuple(x.shape) == (1, length, 1, 1) and x.flatten().tolist() == vector.tolist()
    assert reader.shown(x[0]).tolist() == vector.tolist()


def test_numbers_by_name_find_their_place_whatever_their_order() -> None:
    reader = VectorReader().meet([{"b": 2.0, "a": 1.0}])
    later = reader.meet([{"c": 3.0, "a": 5.0}])
    assert later.names == ("a", "b", "c") and later.shape == reader.shape
    assert later.read([{"c": 3.0, "b": 2.0}]).flatten()[:4].tolist() == [0, 2, 3, 0]
    assert reader.read([{"c": 3.0, "b": 2.0}]).flatten()[:4].tolist() == [0, 2, 0, 0]
    assert VectorReader().restored(later.state_dict()) == later
    with pytest.raises(InvalidInput, match="room for 64 names"):
        reader.meet([{str(n): 0.0 for n in range(80)}])


@pytest.mark.parametrize(
    "bad",
    [
        *(np.zeros(3), np.zeros((2, 4)), [[1.0, np.nan, 2.0]], [[1e300, 0, 0]], [["a", "b", "c"]]),
        *([[1], [1, 2]], np.zeros((0, 3)), np.zeros((1, 3), complex), "abc", {"a": 1}, None, 3),
        torch.zeros(1, 3).to_sparse(),
    ],
)
def test_what_is_no_vector_of_the_right_length_is_refused(bad: Any) -> None:
    clf = of_vectors()
    clf.learn_one([1.0, 2.0, 3.0], "a")
    with pytest.raises(InvalidInput):
        clf.predict(bad)


def test_vectors_come_as_arrays_tensors_and_lists() -> None:
    X, y = blobs(12)
    clf = of_vectors().fit(X, y)
    for form in (X.tolist(), torch.from_numpy(X), X.astype(object), X.astype(np.float32)):
        assert clf.predict(form).tolist() == clf.predict(X).tolist()


def test_lists_arrays_and_tensors_of_images_are_learned_alike() -> None:
    tensor = torch.from_numpy(TRAIN[:6]).permute(0, 3, 1, 2)
    forms = (TRAIN[:6], list(TRAIN[:6]), tensor, [Image.fromarray(x) for x in TRAIN[:6]])
    assert len({of_images().fit(form, list("ababab")).digest() for form in forms}) == 1
