"""What scikit-learn and river expect of an estimator, without importing either of them."""

import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, Self

from earl.errors import InvalidSetting, NotFitted, UnknownName, suggest
from earl.estimator.parameters import Parameters

NAMES = tuple(field.name for field in fields(Parameters))


class Conventions:
    """Parameters by name, copies without what was learned, and tags, as both libraries ask."""

    _supervised = True  # river: learn_one takes a label
    _multiclass = True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in NAMES}

    def set_params(self, **changed: Any) -> Self:
        """Change parameters; what was learned stays as it is until `fit` begins anew."""
        for name, value in changed.items():
            if name not in NAMES:
                raise UnknownName(f"no parameter named {name!r}; {suggest(name, NAMES)}")
            setattr(self, name, value)
        return self

    def clone(self, new_params: Mapping[str, Any] | None = None) -> Self:
        """Return a new estimator with the same parameters that has learned nothing (river)."""
        return type(self)(**(self.get_params() | dict(new_params or {})))

    def __repr__(self) -> str:
        usual = type(self)().get_params()
        given = {n: v for n, v in self.get_params().items() if v is not usual[n] and v != usual[n]}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in given.items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        vectors = self.get_params()["backbone"] is None
        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, one_d_labels=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=vectors, three_d_array=not vectors),
            non_deterministic=False,
        )


def not_fitted(name: str) -> NotFitted:
    """Return the error for a question that comes too early; scikit-learn's too, if it runs."""
    text = f"this {name} has learned nothing yet: call fit, partial_fit or learn_one first"
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return NotFitted(text)
    kinds = (NotFitted, theirs.NotFittedError)
    error: NotFitted = type("NotFittedError", kinds, {})(text)
    return error


def check_unchanged(now: Mapping[str, Any], then: Parameters) -> None:
    """Raise InvalidSetting if a parameter is not what it was when learning began."""
    for name, value in now.items():
        before = getattr(then, name)
        if name == "settings":
            value = dict(value or {})
        if value is not before and value != before:
            raise InvalidSetting(
                f"{name} was {before!r} when learning began and is {value!r} now; set it back, or "
                "begin anew with fit()"
            )


def tell_river(estimator: type) -> None:
    """Let river's isinstance take our class for a classifier, where river is installed."""
    if find_spec("river") is None:
        return
    from river.base import Classifier

    Classifier.register(estimator)
