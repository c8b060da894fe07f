"""Where the settings of a run come from, recorded with it: a table need not import methods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from earl.experiments.recipes import Value

PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class Origins:
    """The part of a run that each setting belongs to, and who chose its value.

    Settings that are neither given nor from the recipe of the data set have their defaults.
    """

    part_of: Mapping[str, str]  # "method", "stream", "data", "setting", "network", "augment", "run"
    recipe: tuple[str, ...]  # settings that have the value of the data set's recipe
    usual: Mapping[str, Value]  # what the settings that were given would be otherwise

    def as_dict(self) -> dict[str, Any]:
        parts: dict[str, list[str]] = {}
        for name, part in self.part_of.items():
            parts.setdefault(part, []).append(name)
        return {"parts": parts, "recipe": list(self.recipe), "usual": dict(self.usual)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Origins":
        part_of = {name: part for part, names in record["parts"].items() for name in names}
        return cls(part_of, tuple(record["recipe"]), record["usual"])


def is_origins(record: object) -> bool:
    """Tell whether this is what `Origins.as_dict` returns."""
    if not isinstance(record, dict) or {*record} != {"parts", "recipe", "usual"}:
        return False
    parts, recipe, usual = record["parts"], record["recipe"], record["usual"]
    return (
        (isinstance(parts, dict) and all(map(is_list_of_texts, parts.values())))
        and is_list_of_texts(recipe)
        and (isinstance(usual, dict) and all(type(value) in PLAIN for value in usual.values()))
    )


def is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
