"""How a pretrained network wants its images: of one size, with three channels, in its own scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from earl.errors import InvalidInput
from earl.nn.augment import View

USUAL = 224  # pixels of a side, where a processor does not say


def check_colours(x: Tensor) -> None:
    """Raise InvalidInput unless x is a batch of stored images, grey or in colours."""
    if x.dtype != torch.uint8 or x.ndim != 4 or x.shape[1] not in (1, 3):
        raise InvalidInput(
            f"expected uint8 images (B, 3, H, W), or (B, 1, H, W) for grey ones, found {x.dtype} "
            f"{tuple(x.shape)}; a pretrained network knows no other kind"
        )


@dataclass(frozen=True)
class ResizedView(View):
    """Enlarges or reduces whole images to a square, bicubically, then normalises them as `View`."""

    size: int = 224

    def check(self, x: Tensor) -> None:
        check_colours(x)

    def __call__(self, x: Tensor) -> Tensor:
        self.check(x)
        x = x.float().expand(-1, 3, -1, -1)
        if x.shape[2:] != (self.size, self.size):
            side = (self.size, self.size)
            x = F.interpolate(x, side, mode="bicubic", antialias=True, align_corners=False)
            x = x.clamp(0, 255)  # a cubic curve leaves the range beside sharp edges
        return self.normalised(x).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class ProcessedView(View):
    """Prepares images with the image processor that comes with a Hugging Face model."""

    mean: tuple[float, ...] = (0.0,) * 3  # the processor has its own
    std: tuple[float, ...] = (1.0,) * 3
    processor: Any = None

    @property
    def side(self) -> int:
        """The pixels of a side that the processor resizes to, before it may cut off the border."""
        size = getattr(self.processor, "size", None) or {}
        found = [size[name] for name in ("height", "shortest_edge") if size.get(name)]
        return int(found[0]) if found else USUAL

    def check(self, x: Tensor) -> None:
        check_colours(x)

    def __call__(self, x: Tensor) -> Tensor:
        self.check(x)
        images = x.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).cpu().numpy()
        kind = {"return_tensors": "pt", "input_data_format": "channels_last"}
        pixels: Tensor = self.processor(images=list(np.ascontiguousarray(images)), **kind)[
            "pixel_values"
        ]
        return pixels.to(x.device)
