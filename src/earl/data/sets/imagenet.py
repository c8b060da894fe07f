"""ImageNet-1K, and ImageNet-200: the classes of TinyImageNet at full resolution."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np

from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.files import FileList, folders, found_files
from earl.data.sets import tiny_imagenet
from earl.data.sets.folder import find_folder
from earl.data.sets.words import find_words, is_wnid
from earl.data.source import Found, Layout, Source, locate
from earl.data.texts import read_lines, read_table
from earl.errors import DataNotFound, InvalidInput
from earl.storage.reading import read_bounded

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FOLDERS = ("", "imagenet-1k", "imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC", "imagenet1k")
SOLUTION = "LOC_val_solution.csv"
DEVKIT = "ILSVRC2012_devkit_t12/data"
TRUTH = "ILSVRC2012_validation_ground_truth.txt"
LARGEST_META = 64 << 20  # bytes of the devkit's table of classes
ANSWERS = ("val_annotations.txt", "val_map.txt", "val.txt")
GET = (
    "ImageNet must be requested from image-net.org; unpack ILSVRC2012_img_train.tar (and the tar "
    "of each class) and ILSVRC2012_img_val.tar there"
)


def load1k(source: Source) -> Dataset:
    """Load ImageNet-1K; the 50 000 validation images test."""
    return open_dataset(find1k(source), source, size=224, mean=MEAN, std=STD)


def load200(source: Source) -> Dataset:
    """Load ImageNet-200: the images of ImageNet of the 200 classes of TinyImageNet."""
    return open_dataset(find200(source), source, size=224, mean=MEAN, std=STD)


def find1k(source: Source) -> Found:
    """Find ImageNet in the data root."""
    return find("imagenet-1k", source, only=None)


def find200(source: Source) -> Found:
    """Find ImageNet-200: in its own folder, or inside ImageNet."""
    own = source.root / "imagenet-200"
    if own.is_dir() and (found := find_folder("imagenet-200", own, source)) is not None:
        return replace(found, words=lambda: find_meanings(own, source.root))
    return find("imagenet-200", source, only=read_class_list(source))


def find(name: str, source: Source, only: list[str] | None) -> Found:
    """Find ImageNet, or some of its classes."""
    layouts = [
        Layout(
            "imagenet/train/<wnid>/ beside imagenet/val/<wnid>/ (or a flat val/ with the devkit in "
            f"{DEVKIT}, {SOLUTION} or val_map.txt)",
            lambda folder: find_tree(name, folder, source.root, only),
        )
    ]
    return locate(name, source.root, FOLDERS, layouts, GET)


def find_tree(name: str, path: Path, root: Path, only: list[str] | None) -> Found | None:
    """Find train/<wnid> and val."""
    if not (path / "train").is_dir() or not (path / "val").is_dir():
        return None
    there = [folder for folder in folders(path / "train") if is_wnid(folder)]
    if not there:
        return None
    if missing := sorted(set(only or ()) - set(there)):
        raise DataNotFound(
            f"{path / 'train' / missing[0]} is missing, and {len(missing) - 1} more of the "
            f"{len(only or ())} classes of {name}"
        )
    classes = sorted(only or there)
    layout = "train/<wnid>" + (" of some classes" if only else "")
    found = found_files(name, layout, path, lambda: walk(path, root, classes))
    return replace(found, words=lambda: words_of(path, root))


def words_of(path: Path, root: Path) -> dict[str, str]:
    """Return what the classes mean, from a text file or from the devkit."""
    if words := find_meanings(path, root):
        return words
    files = [folder / DEVKIT / "meta.mat" for folder in beside(path, root)]
    meta = next((file for file in files if file.is_file()), None)
    with suppress(InvalidInput):  # the words are only shown
        return {wnid: words for _, wnid, words in read_synsets(meta)} if meta else {}
    return {}


def beside(path: Path, root: Path) -> list[Path]:
    """Return the folders that files about ImageNet may lie in."""
    return list(dict.fromkeys((path, path / "val", *path.parents[:3], root)))


def find_meanings(path: Path, root: Path) -> dict[str, str]:
    """Return what the classes mean, from a text file; TinyImageNet has one, too."""
    tiny = (root / folder for folder in tiny_imagenet.FOLDERS)
    return find_words([*beside(path, root), *tiny])


def walk(path: Path, root: Path, classes: list[str]) -> FileList:
    """List the images of some classes."""
    found = FileList()
    for wnid in classes:
        found.add_folder(found.train, path, f"train/{wnid}", wnid)
    if any(is_wnid(folder) for folder in folders(path / "val")):
        for wnid in classes:
            if (path / "val" / wnid).is_dir():
                found.add_folder(found.test, path, f"val/{wnid}", wnid)
        return found
    labels = validation_classes(path, root)
    found.add_folder(found.test, path, "val", "")
    names = [file.rpartition("/")[2].partition(".")[0] for file in found.test.paths]
    if unknown := [name for name in names if name not in labels]:
        raise InvalidInput(f"{path / 'val'}: the class of {unknown[0]} is not known")
    found.test.labels = [labels[name] for name in names]
    wanted = set(classes)
    found.test = found.test.where([label in wanted for label in found.test.labels])
    return found


def validation_classes(path: Path, root: Path) -> dict[str, str]:
    """Return the class of each validation image by its name without ending."""
    for folder in beside(path, root):
        if (file := folder / SOLUTION).is_file():
            return dict(read_solution(file))
        if (folder / DEVKIT / TRUTH).is_file():
            return dict(read_devkit(folder / DEVKIT))
        for name in ANSWERS:
            if (file := folder / name).is_file():
                return dict(read_pairs(file))
    raise DataNotFound(
        f"{path / 'val'} holds images without class folders; put the devkit beside it ({DEVKIT}), "
        f"or {SOLUTION}, or val_map.txt with lines such as ILSVRC2012_val_00000001.JPEG n01751748"
    )


def read_solution(file: Path) -> Iterator[tuple[str, str]]:
    """Yield name and class from the table of the challenge at Kaggle."""
    for number, line in read_table(file):
        name, wnid = line.get("imageid", ""), line.get("predictionstring", "").partition(" ")[0]
        if number > 1 and not (name and is_wnid(wnid)):
            raise InvalidInput(
                f"{file}, line {number}: ImageId and PredictionString should name an image and a "
                "class such as n01440764"
            )
        if number > 1:
            yield name, wnid


def read_pairs(file: Path) -> Iterator[tuple[str, str]]:
    """Yield name and class from lines that hold both."""
    for line in read_lines(file):
        name, wnid, *_ = [*line.split(), "", ""]
        if not is_wnid(wnid):
            raise InvalidInput(
                f"{file}: {line[:80]!r} is not a file name and a class such as n01440764"
            )
        yield name.rpartition("/")[2].partition(".")[0], wnid


def read_devkit(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and class: line i holds the number of the i-th image's class, as in meta.mat."""
    wnids = read_meta(folder / "meta.mat")
    for place, line in enumerate(read_lines(folder / TRUTH), start=1):
        number = line.strip()
        if number not in wnids:
            raise InvalidInput(f"{folder / TRUTH}: there is no class with the number {number[:40]}")
        yield f"ILSVRC2012_val_{place:08d}", wnids[number]


def read_meta(file: Path) -> dict[str, str]:
    """Return the class of each number."""
    return {number: wnid for number, wnid, _ in read_synsets(file)}


def read_synsets(file: Path) -> list[tuple[str, str, str]]:
    """Return number, class and words of each entry of the devkit's table."""
    from scipy.io import loadmat

    try:
        data = read_bounded(file, LARGEST_META, follow=True) or b""
        synsets = loadmat(BytesIO(data), squeeze_me=True, struct_as_record=True)["synsets"]
        wordy = "words" in (synsets.dtype.names or ())
        return [
            (str(int(s["ILSVRC2012_ID"])), str(s["WNID"]), str(s["words"]) if wordy else "")
            for s in np.atleast_1d(synsets).flat
        ]
    # A damaged table can raise nearly anything inside the reader of such files.
    except Exception as error:
        raise InvalidInput(f"{file} is not the devkit's table of classes ({error})") from None


def read_class_list(source: Source) -> list[str]:
    """Return the classes of ImageNet-200 from the user's list, or from TinyImageNet's."""
    given = Path(source.class_list).expanduser() if source.class_list else None
    file = given or tiny_imagenet.class_list(source.root)
    if file is None or not file.is_file():
        raise DataNotFound(
            f"imagenet-200 has the classes of TinyImageNet, and there is no "
            f"{given or source.root / 'tiny-imagenet-200' / 'wnids.txt'}; put that file there, or "
            "name one with --set class_list=FILE"
        )
    classes = " ".join(read_lines(file)).split()
    if wrong := [text for text in classes if not is_wnid(text)]:
        raise InvalidInput(f"{file}: {wrong[0][:80]!r} is not a class such as n01443537")
    return sorted(set(classes))
