"""A ResNet whose first blocks are frozen after a while, and what is then kept instead of images."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Generator, Tensor, nn

from earl.errors import InvalidSetting
from earl.learning import Memory, Pass, Setting, Work, draw_distinct
from earl.methods.frozen.quantizer import ProductQuantizer, vectors_of
from earl.nn import ResNet, eval_mode, learning, let_learn

CHUNK = 64  # images that pass the front at once
PER_CODEWORD = 256  # k-means uses at most so many vectors for each codeword


class SplitResNet(nn.Module):
    """A ResNet in two parts, a front to be frozen and the rest; (B, C, H, W) -> (B, size).

    Once the front is frozen the rest reads its maps as the quantizer, if there is one, gives them
    back. What was frozen when the ResNet was handed over never learns.
    """

    frozen: Tensor  # whether the front is frozen

    def __init__(self, backbone: nn.Module, blocks: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        if not isinstance(backbone, ResNet):
            raise InvalidSetting(
                "the first blocks of the network are to be frozen, and have to be known: this "
                f"method takes a ResNet of earl.nn, not {type(backbone).__name__}"
            )
        n = len(backbone.blocks)
        blocks = 3 * n // 4 if blocks == -1 else blocks
        if not 1 <= blocks < n:
            raise InvalidSetting(
                f"frozen = {blocks} must be from 1 to {n - 1}, since the network has {n} blocks of "
                "which the last learns on; -1 freezes three quarters of them"
            )
        self.front = nn.Sequential(backbone.stem, backbone.blocks[:blocks])
        pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.rest = nn.Sequential(backbone.blocks[blocks:], pool)
        self._given = learning(self.front)
        self.quantizer: ProductQuantizer | None = None
        self.register_buffer("frozen", torch.tensor(False))
        self.map_shape = shape_of_maps(self.front, image_shape)

    def forward(self, x: Tensor) -> Tensor:
        if self.frozen:
            features: Tensor = self.rest(self.decode(self.encode(x)))
        else:
            features = self.rest(self.front(x))
        return features

    def encode(self, x: Tensor) -> Tensor:
        """Return what the front makes of images: codes (B, m, h, w), unquantised (B, c, h, w)."""
        with torch.no_grad():
            maps: Tensor = self.front(x)
            return maps if self.quantizer is None else self.quantizer(maps)

    def decode(self, kept: Tensor) -> Tensor:
        """Return the maps (B, c, h, w) that the rest reads instead of what `encode` gave."""
        return kept if self.quantizer is None else self.quantizer.decode(kept)

    @property
    def shape_kept(self) -> tuple[int, ...]:
        """The shape of what `encode` gives of an image."""
        c, h, w = self.map_shape
        return (c if self.quantizer is None else len(self.quantizer.codebooks), h, w)

    def freeze(self, frozen: bool = True) -> None:
        """Freeze the front for good; False is for a state from before."""
        self.frozen.fill_(frozen)
        let_learn(self.front, self._given)
        self.zero_grad()
        if frozen:
            self.front.requires_grad_(False).eval()


def shape_of_maps(front: nn.Module, image_shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return (c, h, w) of the maps that a front makes, found by showing it a blank image."""
    at = next(front.parameters()).device
    with eval_mode(front), torch.inference_mode():
        _, c, h, w = front(torch.zeros(1, *image_shape, device=at)).shape
    return c, h, w


def length_of_base(base: float, setting: Setting) -> int:
    """Return after how many samples the front is frozen: a number, or a share of the stream."""
    if base >= 1 and float(base).is_integer():
        return int(base)
    if not 0 < base < 1:
        raise InvalidSetting(
            f"base = {base} must be a share of the stream below 1 or a whole number of samples"
        )
    if setting.samples is None:
        raise InvalidSetting(
            f"base = {base} is a share of the stream, whose length is not known; give the number "
            "of samples after which the first blocks are frozen, for example base = 1000"
        )
    return max(1, round(base * setting.samples))


class Encoder:
    """The front of a split ResNet at work: it turns images into what is kept of them.

    What that costs is counted in `work`.
    """

    def __init__(self, split: SplitResNet, setting: Setting, work: Work) -> None:
        self.split, self.setting, self.work = split, setting, work

    def passes(self, network: nn.Module, plastic: nn.Module) -> dict[str, Pass]:
        """Return the passes of a network that is trained whole, then behind its front alone."""
        split, shape = self.split, self.setting.image_shape
        counted = {
            "images": Pass(network, shape),
            "encoded": Pass(split.front, shape, trains=False),
            "replayed": Pass(plastic, split.map_shape),
        }
        if split.quantizer is not None:
            counted["quantized"] = Pass(split.quantizer, split.map_shape, trains=False)
        return counted

    def room_for_codes(self) -> int:
        """Return how many codes take the bytes of `memory_size` images, at least 1."""
        assert self.split.quantizer is not None
        _, h, w = self.split.map_shape
        image = torch.Size(self.setting.image_shape).numel()
        return max(1, self.setting.memory_size * image // self.split.quantizer.nbytes(h * w))

    def fit_quantizer(self, images: Memory, generator: Generator) -> None:
        """Fit the codebooks to the vectors at all positions of the maps of all stored images.

        If there are more than 256 per codeword, a uniform draw of so many is used instead.
        """
        quantizer = self.split.quantizer
        assert quantizer is not None
        _, h, w = self.split.map_shape
        most = PER_CODEWORD * quantizer.codebooks.shape[1]
        chosen = draw_distinct(len(images) * h * w, most, generator).sort().values
        vectors = []
        for rows in torch.arange(len(images)).split(CHUNK):
            (x,) = images.take(rows, "x")
            with torch.no_grad():
                x = self.setting.view(x.to(self.setting.device))
                found = vectors_of(self.split.front(x))
            first = int(rows[0]) * h * w
            here = chosen[(chosen >= first) & (chosen < first + len(found))] - first
            vectors.append(found[here.to(found.device)])
        compared = quantizer.fit(torch.cat(vectors), generator)
        self.work.count(encoded=len(images), quantized=round(compared / (h * w)))

    def encode_stored(self, images: Memory) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what is kept of all stored images, and their class numbers, part by part."""
        for rows in torch.arange(len(images)).split(CHUNK):
            x, y = images.take(rows, "x", "y")
            yield self.encode(x), y

    def encode(self, x: Tensor, augment: Generator | None = None) -> Tensor:
        """Return what is kept of raw images x (B, C, H, W): codes or maps.

        The images are seen as they are or, if there is a generator, as it augments them.
        """
        setting = self.setting
        if augment is None:
            parts = (setting.view(part.to(setting.device)) for part in x.split(CHUNK))
        else:
            parts = iter(setting.augment(x.to(setting.device), augment).split(CHUNK))
        kept = torch.cat([self.split.encode(part).cpu() for part in parts])
        self.work.count(encoded=len(x))
        if self.split.quantizer is not None:
            self.work.count(quantized=len(x))
        return kept

    def block(self, x: Tensor, *, augmented: bool) -> "Block":
        """Return new raw images x (B, C, H, W) as updates see them."""
        return Block(partial(self.encode, x), augmented=augmented)


class Block:
    """New images in front of a frozen part, as each update sees them and as they are kept.

    They are encoded once, as they are; if `augmented`, they are encoded anew for every update, and
    what the first update saw is kept.
    """

    def __init__(self, encode: Callable[[Generator | None], Tensor], *, augmented: bool) -> None:
        self._encode = encode
        self.augmented = augmented
        self._first = None if augmented else encode(None)

    def look(self, augment: Generator) -> Tensor:
        """Return what the next update trains on, codes or maps (B, ...)."""
        if self._first is not None and not self.augmented:
            return self._first
        now = self._encode(augment)
        self._first = now if self._first is None else self._first
        return now

    def kept(self, augment: Generator) -> Tensor:
        """Return what is kept: the first look, which is taken now if there was no update."""
        return self.look(augment) if self._first is None else self._first
