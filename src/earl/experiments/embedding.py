"""Encoding a whole data set once with a pretrained backbone, so that streams of it are fast."""

from dataclasses import replace
from pathlib import Path

import torch

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
    if dataset.embedded:
        raise InvalidSetting(
            f"{dataset.name} holds embeddings already; embed the images themselves"
        )
    if folder.exists():
        raise InvalidSetting(f"{folder} exists already, and nothing is overwritten; choose another")
    encode = encoder_for(dataset, backbone, device)
    kept = KeptFeatures(encode, folder.with_name(f"{folder.name}.partial"))
    total, done = encode.remembered, 0

    def whole(split: Split) -> Split:
        nonlocal done
        rows, parts = torch.arange(len(split)).split(1 if device == "cpu" else AT_ONCE), []
        for x in batches(split.images, rows):
            parts.append(encode(x))
            done += len(x)
            kept.save(done)
            progress("encode", done, total)
        return replace(split, images=torch.cat(parts))

    found = replace(dataset, train=whole(dataset.train), test=whole(dataset.test), mean=(), std=())
    folder.parent.mkdir(parents=True, exist_ok=True)
    embeddings.write(folder, found, backbone.name)
    remove(kept.folder)
    return found


def encoder_for(dataset: Dataset, backbone: Backbone, device: str) -> Encoder:
    """Return what encodes the images of a data set and remembers the features of all of them."""
    shape, view = dataset.image_shape, backbone.view
    setting = Setting(image_shape=shape, view=view, augment=as_it_is, device=device)
    total = len(dataset.train) + len(dataset.test)
    return Encoder(backbone.network, setting, name=backbone.name, remembered=total)


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
