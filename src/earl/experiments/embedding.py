"""Encoding a whole data set once with a pretrained backbone, so that streams of it are fast."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from earl.data.dataset import Dataset, Split, batches
from earl.data.sets import embeddings
from earl.data.source import Progress, silent
from earl.errors import InvalidSetting
from earl.learning.encoder import AT_ONCE, Encoder, as_it_is
from earl.learning.setting import Setting
from earl.nn.backbones import Backbone
from earl.storage.files import remove
from earl.storage.snapshot import read_newest, write_snapshot

FIRST, MORE = 500, 1.25  # images that are encoded before a save, and as a factor before the next


def embed(
    dataset: Dataset,
    backbone: Backbone,
    folder: Path,
    *,
    device: str = "cpu",
    progress: Progress = silent,
) -> Dataset:
    """Write the embeddings of both splits into a new folder, and return them as a data set.

    Stopped and started again, it goes on: features are kept by the hash of their image meanwhile.
    """
    check_can_embed(dataset, folder)
    shape, view = dataset.image_shape, backbone.view
    setting = Setting(image_shape=shape, view=view, augment=as_it_is, device=device)
    total = len(dataset.train) + len(dataset.test)
    encode = Encoder(backbone.network, setting, name=backbone.name, remembered=total)
    kept = KeptFeatures(encode, folder.with_name(f"{folder.name}.partial"))
    done = 0

    def encoded(split: Split) -> Iterator[Tensor]:
        nonlocal done
        rows = torch.arange(len(split)).split(1 if device == "cpu" else AT_ONCE)
        for x in batches(split.images, rows):
            yield encode(x)
            done += len(x)
            kept.save(done)
            progress("encode", done, total)

    def whole(split: Split) -> Split:
        return replace(split, images=torch.cat(list(encoded(split))))

    found = replace(dataset, train=whole(dataset.train), test=whole(dataset.test), mean=(), std=())
    folder.parent.mkdir(parents=True, exist_ok=True)
    embeddings.write(folder, found, backbone.name)
    remove(kept.folder)
    return found


def check_can_embed(dataset: Dataset, folder: Path) -> None:
    """Raise InvalidSetting unless there are images to embed and the folder is a new one."""
    if dataset.embedded:
        raise InvalidSetting(
            f"{dataset.name} holds embeddings already; embed the images themselves"
        )
    if folder.exists():
        raise InvalidSetting(f"{folder} exists already, and nothing is overwritten; choose another")


class KeptFeatures:
    """The features that an encoder remembers, in a folder beside the one that is to be written."""

    def __init__(self, encode: Encoder, folder: Path) -> None:
        self.encode, self.folder, self.saved = encode, folder, 0
        there = read_newest(folder) if folder.is_dir() else None
        if there is None or there.state["backbone"] != encode.state_dict():
            remove(folder)
            return
        images, features = there.state["images"].numpy(), there.state["features"]
        encode.remember({i.tobytes(): h for i, h in zip(images, features, strict=True)})
        self.saved = there.step

    def save(self, done: int) -> None:
        """Save what has been encoded by now, if it is worth it."""
        if done < max(FIRST, MORE * self.saved):
            return
        known = self.encode.known
        state = {
            "backbone": self.encode.state_dict(),
            "images": torch.tensor([list(name) for name in known], dtype=torch.uint8),
            "features": torch.stack([*known.values()]),
        }
        write_snapshot(self.folder, done, state, about={})
        self.saved = done
