"""Recipes: the settings a data set is run with unless you say otherwise."""

from collections.abc import Mapping

Value = bool | int | float | str

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
        "padding": 1,
        "flip": False,
        "rand_augment": False,
    },
    "shapes": {
        "memory_size": 20,
        "every": 40,
        "depth": 8,
        "width": 8,
        "d": 16,
        "hidden": 16,
        "padding": 1,
        "flip": False,
        "rand_augment": False,
    },
}


def recipe(dataset: str) -> Mapping[str, Value]:
    """Return the settings of a data set; one without a recipe gets the general defaults."""
    return RECIPES.get(dataset, {})
