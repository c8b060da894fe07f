"""Shared by the tests of remind."""

import torch
from torch import Tensor

from earl.methods.frozen.remind import REMIND


def codes_of(learner: REMIND, images: Tensor) -> Tensor:
    """Return the codes of raw images by loops over images, positions, parts and codewords."""
    assert learner.split.quantizer is not None
    books = learner.split.quantizer.codebooks
    m, _, width = books.shape
    with torch.no_grad():
        maps = learner.split.front(learner.setting.view(images))
    codes = torch.empty(len(maps), m, *maps.shape[2:], dtype=torch.uint8)
    for b, part, i, j in torch.cartesian_prod(*map(torch.arange, codes.shape)).tolist():
        vector = maps[b, part * width : (part + 1) * width, i, j]
        codes[b, part, i, j] = int((books[part] - vector).square().sum(dim=1).argmin())
    return codes
