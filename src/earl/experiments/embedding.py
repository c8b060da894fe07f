"""Encoding a whole data set once with a pretrained backbone, so that streams of it are fast."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from earl.data.dataset import Dataset, Split, batches
from earl.data.sets import embeddings
from earl.data.source import Progress, silent
from earl.errors import BackboneError, InvalidSetting
from earl.nn.backbones import Backbone

ON_A_GPU = 64  # images that pass the backbone at once; on a CPU single ones are fastest


def embed(
    dataset: Dataset,
    backbone: Backbone,
    folder: Path,
    *,
    device: str = "cpu",
    progress: Progress = silent,
) -> Dataset:
    """Write the embeddings of both splits into a new folder, and return them as a data set."""
    if dataset.embedded:
        raise InvalidSetting(
            f"{dataset.name} holds embeddings already; embed the images themselves"
        )
    if folder.exists():
        raise InvalidSetting(f"{folder} exists already, and nothing is overwritten; choose another")
    backbone.network.eval().to(device)
    total, done = len(dataset.train) + len(dataset.test), 0

    def encoded(split: Split) -> Iterator[Tensor]:
        nonlocal done
        rows = torch.arange(len(split)).split(1 if device == "cpu" else ON_A_GPU)
        for x in batches(split.images, rows):
            with torch.inference_mode():
                h = backbone.network(backbone.view(x.to(device))).float().cpu()
            if not bool(h.isfinite().all()):
                raise BackboneError(f"backbone {backbone.name} makes NaN or infinity of an image")
            done += len(x)
            progress("encode", done, total)
            yield h

    def whole(split: Split) -> Split:
        return replace(split, images=torch.cat(list(encoded(split)))[:, :, None, None])

    found = replace(dataset, train=whole(dataset.train), test=whole(dataset.test), mean=(), std=())
    folder.parent.mkdir(parents=True, exist_ok=True)
    embeddings.write(folder, found, backbone.name)
    return found
