"""What is known of methods and data sets before they are imported or loaded."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodFacts:
    """What a user wants to know of a method before choosing it, and its colour in figures."""

    paper: str
    boundaries: bool  # is it told where tasks end?
    stores: str
    compute: float  # compute of an update ÷ ER's, with the settings of CIFAR-10
    colour: str


@dataclass(frozen=True)
class DatasetFacts:
    """What is known of a data set before it is loaded; of the user's own data, nothing."""

    image_shape: tuple[int, int, int] | None = None  # channels, height and width
    classes: int = 0
    train: int = 0  # images to train on, to within a hundredth
    test: int = 0
    find: str = ""  # the function that tells where it lies, as "module:function"
