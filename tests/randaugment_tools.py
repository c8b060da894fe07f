"""Shared by the tests of randaugment."""

import numpy as np
import torch


def images(channels, size, g, n=6):
    """Return n each of: any bytes, a narrow range, shades of dark, one value, two values."""
    shape, one = (n, channels, *size), (n, channels, 1, 1)
    noise = torch.randint(256, shape, generator=g)
    narrow = 100 + noise % torch.randint(1, 60, one, generator=g)
    dark = (noise * torch.rand(one, generator=g)).long()
    constant = torch.randint(256, one, generator=g).expand(shape)
    low, high = torch.randint(256, (2, *one), generator=g)
    two = torch.where(noise < 100, low, high)
    return torch.cat([noise, narrow, dark, constant, two]).byte()


def from_pil(image):
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())
