"""The strong augmentation of contrastive learning, for batches of bytes: every image draws its own.

Brightness, contrast, saturation and grey equal Pillow's to the last bit. Resizing and hue do not:
Pillow weighs pixels more coarsely, and rounds a hue to 255 steps before it turns it.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from earl.errors import InvalidInput
from earl.nn.augment import random_flip
from earl.nn.randaugment_ops import OPERATIONS

TRIES = 10  # crops that are drawn until one fits into the image
LONGEST = 4 / 3  # how much longer one side of a crop may be than the other
BITS = 22  # weights of pixels are fixed-point numbers of so many bits, so that all devices agree


def draw_boxes(n: int, h: int, w: int, generator: Generator, smallest: float) -> Tensor:
    """Draw n crops of an h x w image: (top, left, height, width) by n.

    The area is uniform in [smallest, 1] of the image and the logarithm of the aspect ratio uniform
    in ±log(4/3); the first of ten tries that fits is taken, the whole image (cut to that ratio if
    need be) if none does. The place is uniform.
    """
    u = torch.rand(2, TRIES, n, generator=generator, dtype=torch.float64)
    area = h * w * (smallest + (1 - smallest) * u[0])  # (TRIES, n)
    ratio = LONGEST ** (2 * u[1] - 1)
    sides = torch.stack((area / ratio, area * ratio)).sqrt().round()  # (2, TRIES, n)
    whole = torch.tensor((min(h, round(w * LONGEST)), min(w, round(h * LONGEST))))
    sides = torch.cat((sides.long(), whole.view(2, 1, 1).expand(2, 1, n)), dim=1)
    full = torch.tensor((h, w)).view(2, 1, 1)
    first = ((sides >= 1) & (sides <= full)).all(dim=0).byte().argmax(dim=0)  # (n,)
    sides = sides.gather(1, first.expand(2, 1, n))[:, 0]  # (2, n)
    place = torch.rand(2, n, generator=generator, dtype=torch.float64)
    return torch.cat(((place * (full[:, 0] - sides + 1)).long(), sides))


def resized_crop(x: Tensor, boxes: Tensor) -> Tensor:
    """Cut box (top, left, height, width) by b out of each image and stretch it to the old size.

    Bilinear; x is uint8 (b, C, H, W). A crop is never larger than its image, so that two
    neighbours per axis are all that a filter for shrinking would look at, too.
    """
    top, left, height, width = boxes
    return _stretch(_stretch(x, left, width, 3), top, height, 2)


def _stretch(x: Tensor, start: Tensor, length: Tensor, dim: int) -> Tensor:
    """Show pixels start .. start + length - 1 (b,) of one axis over all of it."""
    start, length, size = start[:, None], length[:, None], x.shape[dim]
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * (length / size) - 0.5  # (b, size)
    low = centre.floor()
    share = ((centre - low) * (1 << BITS) + 0.5).int()  # of the upper neighbour
    shape = [len(x), 1, 1, 1]
    shape[dim] = size

    def neighbour(k: int) -> Tensor:
        at = (low.long() + k).clamp(min=0).minimum(length - 1) + start
        return x.gather(dim, at.view(shape).to(x.device, non_blocking=True).expand(x.shape)).int()

    share = share.view(shape).to(x.device, non_blocking=True)
    mixed = neighbour(0) * ((1 << BITS) - share) + neighbour(1) * share
    return mixed.add_(1 << (BITS - 1)).bitwise_right_shift_(BITS).byte()


def turn_hue(x: Tensor, turn: Tensor | float) -> Tensor:
    """Turn the hue of RGB images by a part of the circle, a number or (b,); others have no hue.

    With hue H in sixths, value V and chroma C, a channel is V - C·max(0, min(k, 4 - k, 1)) for
    k = (5 + H) mod 6 in red, (3 + H) mod 6 in green and (1 + H) mod 6 in blue.
    """
    if x.shape[1] != 3:
        return x
    r, g, b = x.float().unbind(1)
    V, C = x.amax(1).float(), (x.amax(1) - x.amin(1)).float()
    H = torch.where(r == V, g - b, torch.where(g == V, b - r, r - g)) / C.clamp(min=1)
    H = H + torch.where(r == V, 0, torch.where(g == V, 2, 4))
    turn = torch.as_tensor(turn, dtype=torch.float32).view(-1, 1, 1)
    H = H + 6 * turn.to(x.device, non_blocking=True)
    k = torch.stack([(n + H) % 6 for n in (5, 3, 1)], dim=1)  # (b, 3, H, W)
    away = k.minimum(4 - k).clamp_(0, 1)
    return (V[:, None] - C[:, None] * away).add_(0.5).byte()


JITTERS: tuple[tuple[Callable[[Tensor, Tensor], Tensor], float], ...] = (
    (OPERATIONS["Brightness"], 0.4),
    (OPERATIONS["Contrast"], 0.4),
    (OPERATIONS["Color"], 0.4),
    (turn_hue, 0.1),
)


def draw_jitter(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw the strength of every jitter, (4, n), and which comes in which round, (4, n).

    Each strength is uniform between minus and plus the jitter's; the order of the four is uniform.
    """
    ends = torch.tensor([end for _, end in JITTERS], dtype=torch.float64)[:, None]
    strength = ends * (2 * torch.rand(4, n, generator=generator, dtype=torch.float64) - 1)
    return strength, torch.rand(4, n, generator=generator, dtype=torch.float64).argsort(dim=0)


def jitter(x: Tensor, strength: Tensor, rounds: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of every image, in its own order."""
    x = x.clone()
    for now in rounds:
        for k, (change, _) in enumerate(JITTERS):
            rows = (now == k).nonzero()[:, 0]
            if len(rows):
                x[rows] = change(x[rows], strength[k, rows])
    return x


def contrast_augment(
    x: Tensor, generator: Generator, *, smallest: float = 0.2, mirror: bool = True
) -> Tensor:
    """Return x, uint8 (B, C, H, W), cropped, mirrored, jittered (p = 0.8) and greyed (p = 0.2)."""
    if x.dtype != torch.uint8 or x.ndim != 4:
        raise InvalidInput(f"expected images as uint8 (B, C, H, W), not {x.dtype} {tuple(x.shape)}")
    n, _, h, w = x.shape
    x = resized_crop(x, draw_boxes(n, h, w, generator, smallest))
    if mirror:
        x = random_flip(x, generator)
    strength, rounds = draw_jitter(n, generator)
    jittered, grey = torch.rand(2, n, generator=generator) < torch.tensor([[0.8], [0.2]])
    x = jitter(x, strength, torch.where(jittered, rounds, -1))
    x[grey] = OPERATIONS["Color"](x[grey], -1.0)  # no saturation left
    return x
