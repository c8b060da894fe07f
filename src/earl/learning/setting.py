"""What every method in a comparison shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Generator, Tensor

from earl.errors import require
from earl.learning.inputs import check_images, check_labels
from earl.nn.onednn import require_bfloat16
from earl.nn.precision import takes_bfloat16_on_cpu
from earl.nn.ranks import ALONE, Alone


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every method in a comparison shares."""

    image_shape: tuple[int, int, int]  # (C, H, W)
    view: Callable[[Tensor], Tensor]  # raw -> normalised
    augment: Callable[[Tensor, Generator], Tensor]  # raw -> augmented, normalised
    memory_size: int = 500
    batch_size: int = 16
    iterations: float = 1.0
    lr: float = 3e-4
    seed: int = 1
    device: str = "cpu"
    samples: int | None = None  # the length of the stream, where it is known
    flops: float | None = None  # FLOPs that a sample earns for training, instead of `iterations`
    precision: Literal["float32", "bfloat16"] = "float32"  # of the products within networks
    ranks: Alone = ALONE  # the processes that train together

    def __post_init__(self) -> None:
        for name in ("memory_size", "batch_size"):
            require(getattr(self, name) >= 1, f"{name} = {getattr(self, name)} must be at least 1")
        for name in ("iterations", "lr"):
            require(
                0 < getattr(self, name) < float("inf"),
                f"{name} = {getattr(self, name)} must be positive and finite",
            )
        if takes_bfloat16_on_cpu(self.precision, self.device):
            require_bfloat16()

    def check_images(self, x: Tensor) -> None:
        """Raise InvalidInput unless x is a batch of raw images of the right shape."""
        check_images(x, self.image_shape)

    def check_samples(self, x: Tensor, y: Tensor) -> None:
        """Raise InvalidInput unless x and y are a batch of raw images with class ids."""
        check_images(x, self.image_shape)
        check_labels(y, len(x))
