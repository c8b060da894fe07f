"""Recipes: the settings a data set is run with unless you say otherwise."""

from collections.abc import Mapping

Value = bool | int | float | str

# What the paper's experiments have in common: one network per image size, and features of d = 4096
# for all data sets. `hidden`, which the paper does not state, is that of its authors' code.
SMALL_IMAGES: Mapping[str, Value] = {"stem": "small", "hidden": 2048, "d": 4096, "tasks": 5}
LARGE_IMAGES: Mapping[str, Value] = {**SMALL_IMAGES, "stem": "large"}
# REMIND and NC-FSCIL freeze seven of eight blocks there, after a tenth of the stream.
IMAGENET: Mapping[str, Value] = {**LARGE_IMAGES, "base": 0.1, "frozen": 7}

# Maps of a frozen front: what turns images about would not give the maps of turned images.
MAPS: Mapping[str, Value] = {"preparatory": False}

RECIPES: Mapping[str, Mapping[str, Value]] = {
    # A small network and a weak augmentation, so that 1 200 samples take seconds on a CPU; digits
    # must be neither mirrored nor bent, or a 6 becomes a 9.
    "digits": {
        "memory_size": 100,
        "every": 60,
        "depth": 8,
        "width": 8,
        "d": 64,
        "hidden": 64,
        "latent": 32,
        "vae_hidden": 256,
        "codebooks": 2,  # of 8 channels each, as the paper's
        "padding": 1,
        "flip": False,
        "mirror": False,
        "rand_augment": False,
    },
    "shapes": {
        "tasks": 2,
        "memory_size": 20,
        "every": 40,
        "depth": 8,
        "width": 8,
        "d": 16,
        "hidden": 16,
        "latent": 8,
        "vae_hidden": 64,
        "projected": 200,
        "codebooks": 2,
        "codewords": 32,  # a tenth of the vectors of 20 images
        "padding": 1,
        "flip": False,
        "mirror": False,
        "rand_augment": False,
    },
    "cifar10": {
        **SMALL_IMAGES,
        "iterations": 1,
        "memory_size": 500,
        "batch_size": 16,
        "every": 100,
    },
    "cifar100": {
        **SMALL_IMAGES,
        "iterations": 3,
        "memory_size": 2000,
        "batch_size": 32,
        "every": 100,
    },
    "tiny-imagenet": {
        **SMALL_IMAGES,
        "iterations": 3,
        "memory_size": 4000,
        "batch_size": 32,
        "every": 100,
    },
    "imagenet-200": {
        **IMAGENET,
        "iterations": 0.25,
        "memory_size": 4000,
        "batch_size": 256,
        "every": 1000,  # the paper does not say
    },
    "imagenet-1k": {
        **IMAGENET,
        "iterations": 0.25,
        "memory_size": 10000,
        "batch_size": 256,
        "every": 1000,
    },
    # Features of a frozen backbone: there are no pixels to move, and angles mean something before
    # anything was learned. Chosen on training images of CIFAR-10 (docs/embeddings.md).
    "embeddings": {
        "preparatory": False,
        "hidden": 0,
        "d": 1280,
        "projection": "means",
        "residual_source": "means",
        "tau": 0.05,
    },
    # The paper prints no settings for CLEAR; these are those of its authors' code.
    "clear-10": {
        **LARGE_IMAGES,
        "tasks": 10,
        "iterations": 3,
        "memory_size": 500,
        "batch_size": 32,
        "every": 200,
    },
    "clear-100": {
        **LARGE_IMAGES,
        "tasks": 11,
        "iterations": 3,
        "memory_size": 2000,
        "batch_size": 32,
        "every": 500,
    },
}


def recipe(dataset: str, part_of: Mapping[str, str] | None = None) -> Mapping[str, Value]:
    """Return the settings of a data set; one without a recipe gets the general defaults.

    In recipes `frozen` is the number of blocks that some methods freeze. In a run where it belongs
    to the network, as `part_of` tells, it says whether the backbone is frozen: another thing.
    """
    found = RECIPES.get(dataset.partition(":")[0], {})
    if (part_of or {}).get("frozen") != "network":
        return found
    return {name: value for name, value in found.items() if name != "frozen"}
