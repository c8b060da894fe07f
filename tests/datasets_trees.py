"""Small data sets on disk, each in exactly the format of the real one, for the tests."""

import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from earl.data.sets import csv_list, folder, imagenet, parquet
from earl.data.source import Source
from pictures import encoded

NAMES10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def source(tmp_path, **changes):
    return Source(**({"root": tmp_path / "data", "cache": tmp_path / "cache"} | changes))


def load_folder(tmp_path, **changes):
    """Load the folder `photos`."""
    return folder.load(source(tmp_path, path=str(tmp_path / "photos"), **changes))


def load_photos(tmp_path, **changes):
    """Load the folder `photos`; return the data set and all calls that tell of progress."""
    seen = []
    return load_folder(tmp_path, progress=lambda *p: seen.append(p), **changes), seen


def load_csv(tmp_path, data, **changes):
    """Write a list of images and load it."""
    (tmp_path / "labels.csv").write_bytes(data if isinstance(data, bytes) else data.encode())
    return csv_list.load(source(tmp_path, path=str(tmp_path / "labels.csv"), **changes))


def load_parquet(tmp_path, **changes):
    """Load the parquet files in the folder `set`."""
    return parquet.load(source(tmp_path, path=str(tmp_path / "set"), **changes))


def all_images(split):
    """Return the images of a split in memory."""
    return split.images[torch.arange(len(split))]


def noise(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, size=(12, 12), colour=None, seed=0, **options):
    """Write a picture: of one colour, or of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if colour is not None:
        Image.new("RGB", size, colour).save(path, **options)
    else:
        Image.fromarray(noise(seed, size[1], size[0], 3)).save(path, **options)
    return path


def write_photos(folder, size=(12, 12), n=8, first=0):
    """Write two classes of different photos into a folder, and return it."""
    for k, c in enumerate("ab"):
        for i in range(n):
            save(folder / c / f"{i}.png", size, seed=first + i + 100 * k)
    return folder


def jpeg(seed, side=32):
    return encoded(Image.fromarray(noise(seed, side, side, 3)), "JPEG")


def png(seed, side=32):
    return encoded(Image.fromarray(noise(seed, side, side, 3)))


def cifar_arrays(classes, n_train=20, n_test=10):
    """Return (images, labels) of both splits; every batch has n_train images."""
    train = noise(1, 5 * n_train, 3072), np.arange(5 * n_train) % classes
    test = noise(2, n_test, 3072), np.arange(n_test) % classes
    return train, test


def write_cifar10_binary(root: Path, n=20):
    (x, y), (tx, ty) = cifar_arrays(10, n)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for b in range(5):
        part = slice(b * n, (b + 1) * n)
        records = np.concatenate([y[part, None].astype(np.uint8), x[part]], axis=1)
        (folder / f"data_batch_{b + 1}.bin").write_bytes(records.tobytes())
    records = np.concatenate([ty[:, None].astype(np.uint8), tx], axis=1)
    (folder / "test_batch.bin").write_bytes(records.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(NAMES10) + "\n\n")
    return folder


def write_cifar100_binary(root: Path):
    (x, y), (tx, ty) = cifar_arrays(100, 40, 100)
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name, images, labels in (("train", x, y), ("test", tx, ty)):
        both = np.stack([labels // 5, labels], axis=1).astype(np.uint8)  # coarse, fine
        (folder / f"{name}.bin").write_bytes(np.concatenate([both, images], axis=1).tobytes())
    (folder / "fine_label_names.txt").write_text("".join(f"class_{n:02}\n" for n in range(100)))
    (folder / "coarse_label_names.txt").write_text("".join(f"group_{n}\n" for n in range(20)))
    return folder


def write_cifar10_python(root: Path, n=20):
    """Write pickles of protocol 2, as the originals are."""
    (x, y), (tx, ty) = cifar_arrays(10, n)
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)

    def batch(images, labels, name):
        names = [f"image_{n}.png" for n in range(len(labels))]
        return {"data": images, "labels": labels.tolist(), "batch_label": name, "filenames": names}

    for b in range(5):
        part = slice(b * n, (b + 1) * n)
        dump(
            folder / f"data_batch_{b + 1}", batch(x[part], y[part], f"training batch {b + 1} of 5")
        )
    dump(folder / "test_batch", batch(tx, ty, "testing batch 1 of 1"))
    meta = {"label_names": NAMES10, "num_cases_per_batch": n, "num_vis": 3072}
    dump(folder / "batches.meta", meta)
    return folder


def write_cifar100_python(root: Path):
    (x, y), (tx, ty) = cifar_arrays(100, 40, 100)
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for name, images, labels in (("train", x, y), ("test", tx, ty)):
        fine, coarse = labels.tolist(), (labels // 5).tolist()
        dump(folder / name, {"data": images, "fine_labels": fine, "coarse_labels": coarse})
    names = [f"class_{n:02}" for n in range(100)]
    dump(folder / "meta", {"fine_label_names": names, "coarse_label_names": ["x"] * 20})
    return folder


def dump(path, value, protocol=2):
    path.write_bytes(pickle.dumps(value, protocol=protocol))


def write_parquet(path, rows, names=None, image="image", label="label", nested=True, group=None):
    """Write rows of (image bytes, label) as Hugging Face does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    if nested:
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        pictures = pa.array([{"bytes": b, "path": None} for b, _ in rows], kind)
    else:
        pictures = pa.array([b for b, _ in rows], pa.binary())
    table = pa.table({image: pictures, label: pa.array([y for _, y in rows])})
    if names:
        features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
        about = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": about})
    pq.write_table(table, path, row_group_size=group)


def write_tiny_imagenet(root: Path, classes=("n01443537", "n01629819", "n01641577"), n=4):
    """Write tiny-imagenet-200 as distributed, with fewer classes and images."""
    folder = root / "tiny-imagenet-200"
    for k, wnid in enumerate(classes):
        for i in range(n):
            save(folder / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", (64, 64), seed=10 * k + i)
        boxes = "".join(f"{wnid}_{i}.JPEG\t0\t10\t63\t58\n" for i in range(n))
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text(boxes)
    lines = []
    for i in range(2 * len(classes)):
        save(folder / "val" / "images" / f"val_{i}.JPEG", (64, 64), seed=100 + i)
        lines.append(f"val_{i}.JPEG\t{classes[i % len(classes)]}\t0\t32\t44\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    save(folder / "test" / "images" / "test_0.JPEG", (64, 64))
    (folder / "wnids.txt").write_text("\n".join(classes) + "\n")
    (folder / "words.txt").write_text("".join(f"{w}\tsome words\n" for w in classes))
    return folder


WNIDS = ("n01440764", "n01443537", "n01629819", "n01641577")


def write_imagenet(root: Path, flat=False, n=3):
    """Write ImageNet with four classes; two validation images of each."""
    folder = root / "imagenet"
    for k, wnid in enumerate(WNIDS):
        for i in range(n):
            save(folder / "train" / wnid / f"{wnid}_{i}.JPEG", (90 + 10 * i, 70), seed=10 * k + i)
    for i in range(8):
        name = f"ILSVRC2012_val_{i + 1:08d}.JPEG"
        where = folder / "val" if flat else folder / "val" / WNIDS[i % 4]
        save(where / name, (80, 60), colour=(30 * (i % 4), 0, 0))
    return folder


def write_devkit(root: Path):
    """Write the devkit's tables, whose numbers are not in the order of the names."""
    folder = root / imagenet.DEVKIT
    folder.mkdir(parents=True)
    kinds = [("ILSVRC2012_ID", "f8"), ("WNID", "O"), ("words", "O")]
    rows = [(len(WNIDS) - n, wnid, f"fish {n}") for n, wnid in enumerate(WNIDS)]
    savemat(folder / "meta.mat", {"synsets": np.array(rows, dtype=kinds).reshape(-1, 1)})
    (folder / imagenet.TRUTH).write_text("".join(f"{len(WNIDS) - i % 4}\n" for i in range(8)))


def write_clear(root: Path, name="clear10", buckets=(1, 2, 3), classes=("bus", "camera"), n=3):
    folder = root / name
    for split, count in (("train_image_only", n), ("test", 2)):
        for bucket in buckets:
            for k, c in enumerate((*classes, "BACKGROUND")):
                for i in range(count):
                    where = folder / split / "labeled_images" / str(bucket) / c
                    save(where / f"{bucket}{k}{i}.jpg", (70, 50), colour=(bucket, 50 * k, i))
    return folder


def tar_of(*members, pack="gz"):
    """Return a tar of (TarInfo or name, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{pack}") as tar:
        for info, data in members:
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()
