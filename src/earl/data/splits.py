"""The names that a training or a test split may have, in upper or lower case, also as plurals."""

import re

TRAIN = ("train", "trains", "training", "trainings")
TESTS = {  # if there are several, the first of these is taken
    "test": ("test", "tests", "testing", "testings"),
    "validation": ("val", "vals", "valid", "validation", "validations"),
    "evaluation": ("eval", "evals", "evaluation", "evaluations"),
}
TEST = tuple(name for names in TESTS.values() for name in names)


def meaning(name: str) -> str:
    """Return which split a name is one of: train, test, validation, evaluation, or "" for none."""
    known = {"train": TRAIN, **TESTS}
    return next((split for split, names in known.items() if name.casefold() in names), "")


def resembles(name: str) -> bool:
    """Return whether a name has a split's name in it, such as train_images or seg-test2."""
    return any(meaning(word) for word in re.split(r"[\W\d_]+", name))
