"""Which values the settings of EARL can have."""

from collections.abc import Collection, Mapping

from earl.errors import require, require_one_of
from earl.learning import POLICIES, Setting
from earl.methods.earl.negatives import NEGATIVES

CHOICES: Mapping[str, Collection[str]] = {
    "negative": NEGATIVES,
    "classifier": ("fixed", "learnable"),
    "policy": POLICIES,
    "preparatory_count": ("inside", "on-top"),
    "residual_source": ("train", "refresh", "means"),
    "projection": ("random", "means"),
}


def check_numbers(*, k: int, tau: float, lam: float, pairs_per_class: int, hidden: int) -> None:
    """Raise InvalidSetting unless all numbers are possible."""
    require(k >= 1, f"k = {k} must be at least 1")
    require(tau > 0, f"tau = {tau} must be positive")
    require(lam >= 0, f"lam = {lam} must not be negative")
    require(pairs_per_class >= 1, f"pairs_per_class = {pairs_per_class} must be at least 1")
    require(hidden >= 0, f"hidden = {hidden} must not be negative (0: no hidden layers)")


def check_names(**chosen: str) -> None:
    """Raise UnknownName unless all settings that are words have one of theirs."""
    for name, value in chosen.items():
        require_one_of(name, value, CHOICES[name])


def check_pixels(moved: bool, setting: Setting) -> None:
    """Raise InvalidSetting if pixels are to be moved where there are none."""
    none = setting.image_shape[1:] == (1, 1)
    require(not (moved and none), "embeddings have no pixels to move; set preparatory=false")


def check_projection(projection: str, source: str, preparatory: bool) -> None:
    """Raise unless there is such a projection; one by the class means needs them."""
    check_names(projection=projection)
    if projection == "means":
        why = "projection = means moves features along the vectors of seen classes; set"
        require(source == "means", f"{why} residual_source=means")
        require(not preparatory, f"{why} preparatory=false")
