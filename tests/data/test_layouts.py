"""TinyImageNet, ImageNet, ImageNet-200 and CLEAR: each exactly as it is distributed."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

from datasets_trees import (
    WNIDS,
    all_images,
    save,
    source,
    write_clear,
    write_devkit,
    write_imagenet,
    write_tiny_imagenet,
)
from earl.data.sets import clear, imagenet, tiny_imagenet
from earl.data.setups import clear as clear_stream
from earl.errors import BrokenImage, DataNotFound, InvalidInput


def test_tiny_imagenet_as_distributed(tmp_path):
    folder = write_tiny_imagenet(tmp_path / "data")
    data = tiny_imagenet.load(source(tmp_path))
    assert data.class_names == ("n01443537", "n01629819", "n01641577")
    assert data.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.test.labels.tolist() == [0, 1, 2, 0, 1, 2]  # val_0, val_1, ...
    assert data.train.names[:2] == ("n01443537_0", "n01443537_1") and data.test.names[5] == "val_5"
    assert data.mean == tiny_imagenet.MEAN and data.image_shape == (3, 64, 64)
    with Image.open(folder / "val/images/val_3.JPEG") as picture:
        assert (all_images(data.test)[3].numpy() == np.asarray(picture).transpose(2, 0, 1)).all()


def test_tiny_imagenet_in_class_folders(tmp_path):
    for split in ("train", "val"):
        for wnid in ("n01443537", "n01629819"):
            save(tmp_path / "data/tiny-imagenet" / split / wnid / "a.png", (64, 64))
    data = tiny_imagenet.load(source(tmp_path))
    assert (len(data.train), len(data.test)) == (2, 2)


def test_tiny_imagenet_with_a_missing_or_an_unknown_validation_image(tmp_path):
    folder = write_tiny_imagenet(tmp_path / "data")
    (folder / "val/images/val_2.JPEG").rename(folder / "val/images/other.JPEG")
    with pytest.raises(InvalidInput, match=r"says nothing about other\.JPEG"):
        tiny_imagenet.load(source(tmp_path))
    (folder / "val/images/other.JPEG").unlink()
    with pytest.raises(DataNotFound, match=r"val_2\.JPEG is missing"):
        tiny_imagenet.load(source(tmp_path))


def test_missing_tiny_imagenet_names_the_root(tmp_path):
    with pytest.raises(DataNotFound, match=r"data; expected there: tiny-imagenet-200/ as distri"):
        tiny_imagenet.load(source(tmp_path))


def red(split):
    """Return the red of each image: the tree paints the class into it."""
    return all_images(split)[:, 0].flatten(1).double().mean(1).div(30).round().long()


def test_imagenet_with_class_folders_is_not_held_in_memory(tmp_path):
    write_imagenet(tmp_path / "data")
    data = imagenet.load1k(source(tmp_path))
    assert data.class_names == WNIDS and data.image_shape == (3, 224, 224)
    assert data.train.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert torch.equal(red(data.test), data.test.labels)
    assert not isinstance(data.train.images, torch.Tensor)
    assert not list((tmp_path / "cache").rglob("*images.npy"))


def write_solution(root):
    with (root / "LOC_val_solution.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ImageId", "PredictionString"])
        for i in reversed(range(8)):
            row = f"{WNIDS[i % 4]} 10 20 30 40 {WNIDS[i % 4]} 1 2 3 4 "
            writer.writerow([f"ILSVRC2012_val_{i + 1:08d}", row])


def write_map(root):
    lines = (f"ILSVRC2012_val_{i + 1:08d}.JPEG {WNIDS[i % 4]}\n" for i in range(8))
    (root / "val_map.txt").write_text("".join(lines))


@pytest.mark.parametrize("write", [write_devkit, write_solution, write_map])
@pytest.mark.parametrize("where", ["data", "data/imagenet"])
def test_imagenet_with_a_flat_validation_folder(write, where, tmp_path):
    write_imagenet(tmp_path / "data", flat=True)
    write(tmp_path / where)
    data = imagenet.load1k(source(tmp_path))
    assert data.test.labels.bincount().tolist() == [2] * 4
    assert torch.equal(red(data.test), data.test.labels)


def test_flat_validation_folder_without_answers(tmp_path):
    write_imagenet(tmp_path / "data", flat=True)
    with pytest.raises(DataNotFound, match="put the devkit beside it"):
        imagenet.load1k(source(tmp_path))


def test_imagenet_200_takes_the_classes_of_tiny_imagenet(tmp_path):
    write_imagenet(tmp_path / "data")
    with pytest.raises(DataNotFound, match=r"tiny-imagenet-200/wnids\.txt.*--set class_list=FILE"):
        imagenet.load200(source(tmp_path))
    write_tiny_imagenet(tmp_path / "data")
    data = imagenet.load200(source(tmp_path))
    assert data.class_names == WNIDS[1:] and data.image_shape == (3, 224, 224)
    assert torch.equal(red(data.test), data.test.labels + 1)


def test_imagenet_200_takes_the_users_list(tmp_path):
    write_imagenet(tmp_path / "data", flat=True)
    write_map(tmp_path / "data")
    (tmp_path / "list.txt").write_text("n01641577\nn01440764\n")
    data = imagenet.load200(source(tmp_path, class_list=str(tmp_path / "list.txt")))
    assert data.class_names == ("n01440764", "n01641577")
    assert (red(data.test) == data.test.labels * 3).all()
    (tmp_path / "list.txt").write_text("n01641577\nn09999999\n")
    with pytest.raises(DataNotFound, match="n09999999"):
        imagenet.load200(source(tmp_path, class_list=str(tmp_path / "list.txt")))
    (tmp_path / "list.txt").write_text("goldfish\n")
    with pytest.raises(InvalidInput, match="'goldfish'"):
        imagenet.load200(source(tmp_path, class_list=str(tmp_path / "list.txt")))


def test_missing_imagenet_says_how_to_get_it(tmp_path):
    with pytest.raises(DataNotFound, match=r"imagenet/train/<wnid>/.*image-net\.org"):
        imagenet.load1k(source(tmp_path))


def test_clear_has_time_buckets_counted_from_0(tmp_path):
    write_clear(tmp_path / "data", buckets=(1, 2, 10))
    data = clear.load10(source(tmp_path))
    assert data.class_names == ("bus", "camera")  # not BACKGROUND
    assert data.train.domains.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1] * 3
    assert data.test.domains.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    bucket = all_images(data.train)[:, 0, 0, 0].long()  # the tree paints it into the red
    assert (bucket - torch.tensor([1, 2, 10])[data.train.domains]).abs().max() <= 2


def test_clear_10_is_trained_on_its_buckets_from_1_and_asked_about_all(tmp_path):
    """Bucket 0 is there for pre-training: with it the stream would have eleven buckets, not ten."""
    write_clear(tmp_path / "data", buckets=(0, 1, 2))
    data = clear.load10(source(tmp_path))
    assert data.train.domains.tolist() == [1] * 6 + [2] * 6
    assert data.test.domains.tolist() == [0] * 4 + [1] * 4 + [2] * 4  # as in the authors' list
    bucket = all_images(data.train)[:, 0, 0, 0].long()
    assert (
        bucket - data.train.domains
    ).abs().max() <= 2  # the same number, also of the test images
    assert data.notes == ("bucket 0 of train_image_only is not part of the benchmark",)


def test_clear_10_of_eleven_buckets_is_a_stream_of_ten(tmp_path):
    classes = [f"class{c}" for c in range(10)]
    write_clear(tmp_path / "data", buckets=range(11), classes=classes, n=1)
    schedule = clear_stream(clear.load10(source(tmp_path)).train, seed=1)
    assert schedule.boundaries == (1, 3, 6, 10, 15, 21, 28, 36, 45)  # a class more in each bucket


def test_clear_100_has_its_bucket_0(tmp_path):
    write_clear(tmp_path / "data", name="clear100", buckets=(0, 1, 2))
    data = clear.load100(source(tmp_path))
    assert data.train.domains.unique().tolist() == [0, 1, 2] and not data.notes


def test_clear_needs_its_test_split(tmp_path):
    folder = write_clear(tmp_path / "data", name="clear100")
    (folder / "test").rename(folder / "elsewhere")
    with pytest.raises(DataNotFound, match="no test/labeled_images"):
        clear.load100(source(tmp_path))
    with pytest.raises(DataNotFound, match="earl data download clear-10"):
        clear.load10(source(tmp_path))


def test_one_truncated_image_among_many_is_named(tmp_path):
    folder = write_imagenet(tmp_path / "data")
    file = folder / "train/n01629819/n01629819_1.JPEG"
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(BrokenImage, match=r"1 of 20 images.*n01629819_1\.JPEG.*--skip-broken"):
        imagenet.load1k(source(tmp_path))
    data = imagenet.load1k(source(tmp_path, skip_broken=True))
    assert len(data.train) == 11 and "n01629819_1" not in data.train.names
    assert len(data.skipped) == 1 and "n01629819_1.JPEG" in data.skipped[0]
    with pytest.raises(BrokenImage):  # what was prepared without it is no excuse
        imagenet.load1k(source(tmp_path))


def test_image_that_breaks_later_is_named(tmp_path):
    folder = write_imagenet(tmp_path / "data")
    data = imagenet.load1k(source(tmp_path))
    (folder / "train/n01440764/n01440764_0.JPEG").unlink()
    with pytest.raises(BrokenImage, match=r"n01440764_0\.JPEG.*earl resume"):
        data.train.images[torch.tensor([0])]
