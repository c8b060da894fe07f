"""Encoded pictures for tests."""

import io

import numpy as np


def encoded(picture, kind="PNG", **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


RNG = np.random.default_rng(0)


NOISE = RNG.integers(0, 256, (24, 24, 3), dtype=np.uint8)
