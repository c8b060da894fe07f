"""The setting of a learner that leaves images as they are, and what it is given."""

import torch

from earl.learning.setting import Setting


def ids(*values):
    return torch.tensor(values, dtype=torch.int64)


def setting(**given_values):
    shared = {"image_shape": (3, 4, 5), "view": lambda x: x, "augment": lambda x, g: x}
    return Setting(**{**shared, **given_values})


def raw(n=2, shape=(3, 4, 5)):
    return torch.zeros(n, *shape, dtype=torch.uint8)


def of_features(size, **given_values):
    """Return the setting of a learner that is handed features instead of images."""
    return setting(image_shape=(size, 1, 1), dtype=torch.float32, **given_values)
