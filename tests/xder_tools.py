"""Shared by the tests of xder."""

from torch import Tensor


def naive_renew(stored: Tensor, z: Tensor, y: int, start: int, gamma: float) -> Tensor:
    """Return one entry's logits with those from `start` on replaced as the paper says."""
    own, top = float(stored[y]), max(float(v) for v in z[start:])
    result = stored.clone()
    for c in range(start, len(z)):
        v = float(z[c])
        if top > own:
            v = v * gamma * own / top if own > 0 else v + own - top
        result[c] = v
    return result
