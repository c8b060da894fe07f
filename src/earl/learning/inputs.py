"""Checks of what a learner is given: raw images with class ids, in ordinary dense tensors."""

import torch
from torch import Tensor

from earl.errors import InvalidInput

INTEGER = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_images(x: Tensor, image_shape: tuple[int, int, int]) -> None:
    """Raise InvalidInput unless x is a batch of raw images of that shape (C, H, W)."""
    if not isinstance(x, Tensor):
        raise InvalidInput(
            f"images must be a torch.Tensor, not {type(x).__name__}; use torch.from_numpy(...)"
        )
    if x.dtype != torch.uint8:
        raise InvalidInput(
            f"images must be raw uint8 from 0 to 255, not {x.dtype}; floats in 0 to 1 become "
            "raw by (x * 255).round().to(torch.uint8), and must not hold NaN"
        )
    check_dense(x, "images")
    if x.dim() != 4 or tuple(x.shape[1:]) != image_shape or not len(x):
        raise InvalidInput(
            f"images must have the shape (B, {', '.join(map(str, image_shape))}) with "
            f"B >= 1, not {tuple(x.shape)}; one image needs x[None], another size a resize"
        )


def check_labels(y: Tensor, n: int) -> None:
    """Raise InvalidInput unless y holds the class ids of n images."""
    if not isinstance(y, Tensor) or y.dtype not in INTEGER:
        kind = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise InvalidInput(f"labels must be an integer torch.Tensor, not {kind}")
    check_dense(y, "labels")
    if y.shape != (n,):
        raise InvalidInput(f"{n} images need labels of shape ({n},), not {tuple(y.shape)}")
    if (least := min(y.tolist())) < 0:
        raise InvalidInput(
            f"label {least} is negative; class ids count from 0 and -1 means 'unknown'"
        )


def check_dense(t: Tensor, what: str) -> None:
    """Raise InvalidInput unless a tensor holds all of its numbers, one beside the other."""
    if kind := unlike_dense(t):
        raise InvalidInput(
            f"{what} must be an ordinary dense torch.Tensor, not one that is {kind}; a sparse or "
            "nested one becomes dense by to_dense() or torch.nested.to_padded_tensor(...)"
        )


def unlike_dense(t: Tensor) -> str:
    """Return why a tensor cannot be read like any other; "" if it can."""
    if t.is_nested:  # before all else: asked for its shape, it may raise
        return "nested"
    if t.is_meta:
        return "on the meta device, without numbers"
    if t.layout != torch.strided:
        return f"stored as {str(t.layout).removeprefix('torch.')}"
    if type(t).__torch_dispatch__ is not Tensor.__torch_dispatch__:  # masked, fake, distributed
        return f"a {type(t).__name__}, which calculates in its own way"
    return ""
