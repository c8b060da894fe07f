"""Options: every keyword that a run can be given, found in the signatures that take them."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from earl.errors import InvalidSetting, UnknownName, suggest
from earl.experiments.meanings import UNTOLD, Meaning, meaning_of
from earl.experiments.recipes import Value


@dataclass(frozen=True)
class Option:
    """One keyword: the part of a run it belongs to, its type, its default and what it means."""

    name: str
    part: str
    kind: Any
    default: Value
    meaning: Meaning = UNTOLD

    def read(self, given: Value) -> Value:
        """Return the value as the option's type; text, as from a command line, is converted."""
        try:
            value = convert(given, self.kind)
        except ValueError as error:
            raise InvalidSetting(f"{self.name} = {given!r} {error}") from None
        if not self.meaning.allows(value):
            raise InvalidSetting(f"{self.name} = {value} must be {self.meaning.bounds()}")
        return value

    def range(self) -> str:
        """Return in words which values it takes."""
        if get_origin(self.kind) is Literal:
            return ", ".join(map(written, get_args(self.kind)))
        kinds = {bool: "true, false", int: "a whole number", float: "a number", str: "text"}
        return self.meaning.bounds() or kinds[self.kind]


class Options:
    """The options of one run, by name; parts of a run never share a name."""

    def __init__(self, parts: Mapping[str, Callable[..., object]]) -> None:
        self._options: dict[str, Option] = {}
        for part, function in parts.items():
            for option in options_of(part, function):
                if option.name in self._options:
                    other = self._options[option.name].part
                    raise ValueError(f"{part} and {other} both have an option {option.name!r}")
                self._options[option.name] = option

    def names(self) -> tuple[str, ...]:
        return tuple(self._options)

    def read(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Return the given values in their types; an unknown name is refused."""
        for name in given:
            if name not in self._options:
                raise UnknownName(f"no setting named {name!r}; {suggest(name, self.names())}")
        return {name: self._options[name].read(value) for name, value in given.items()}

    def complete(self, recipe: Mapping[str, Value], given: Mapping[str, Value]) -> dict[str, Value]:
        """Return every option's value: the given one, else that of the recipe, else the default."""
        known = {name: value for name, value in recipe.items() if name in self._options}
        chosen = self.read(known) | self.read(given)
        return {name: chosen.get(name, option.default) for name, option in self._options.items()}

    def of(self, part: str, values: Mapping[str, Value]) -> dict[str, Any]:
        """Return the values that belong to one part."""
        return {n: v for n, v in values.items() if n in self._options and self.part(n) == part}

    def part(self, name: str) -> str:
        return self._options[name].part

    def __getitem__(self, name: str) -> Option:
        return self._options[name]


def options_of(part: str, function: Callable[..., object]) -> list[Option]:
    """Return a function's keyword-only parameters with simple types and a default as options."""
    inner = getattr(function, "func", function)  # a functools.partial changes only defaults
    hints = get_type_hints(inner.__init__ if inspect.isclass(inner) else inner)
    return [
        Option(name, part, hints[name], parameter.default, meaning_of(part, function, name))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and parameter.default is not inspect.Parameter.empty
        and (hints[name] in (bool, int, float, str) or get_origin(hints[name]) is Literal)
    ]


def convert(given: Value, kind: Any) -> Value:
    """Return the value as bool, int, float, str or one of a Literal's; ValueError says why not."""
    if not isinstance(given, bool | int | float | str):
        raise ValueError(f"must be a number, text, true or false, not {type(given).__name__}")
    if get_origin(kind) is Literal:
        known = {written(one): one for one in get_args(kind)}
        if written(given) not in known:
            raise ValueError(f"is not one of {', '.join(known)}")
        choice: Value = known[written(given)]
        return choice
    if kind is bool:
        truth = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        if isinstance(given, bool):
            return given
        if str(given).lower() not in truth:
            raise ValueError("must be true or false")
        return truth[str(given).lower()]
    if isinstance(given, bool):
        raise ValueError(f"must be {'text' if kind is str else 'a number'}, not true or false")
    if kind is str:
        return str(given)
    return number(given, whole=kind is int)


def written(choice: Value) -> str:
    """Return a choice as one writes it."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def number(given: Value, whole: bool) -> int | float:
    try:
        value = float(given)
    except ValueError:
        raise ValueError("must be a number") from None
    except OverflowError:
        raise ValueError("is too large") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    if not whole:
        return value
    if value != int(value):
        raise ValueError("must be a whole number")
    return int(value)
