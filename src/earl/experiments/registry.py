"""A table of names: what the command line offers, and how to find it without importing torch."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from earl.errors import UnknownName, suggest

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One row of a registry: a name, one line about it, and the object or where it lives."""

    name: str
    about: str
    target: T | str  # the object itself, or "package.module:attribute"
    facts: Any = None  # what else is known of it without importing it


class Registry(Generic[T]):
    """Maps names to objects; a wrong name is an error that suggests the nearest right one.

    Built-in objects are listed by their import path, so that listing names imports nothing heavy.
    """

    def __init__(self, kind: str, facts: Any = None) -> None:
        """Make an empty registry of one kind; `facts` are those of an entry that gives none."""
        self.kind = kind
        self.facts = facts
        self._entries: dict[str, Entry[T]] = {}

    def list(self, name: str, where: str, about: str, facts: Any = None) -> None:
        """Enter an object by where it lives ("module:attribute"); it is imported when asked for."""
        self._add(Entry(name, about, where, facts or self.facts))

    def register(self, name: str, about: str = "") -> Callable[[T], T]:
        """Enter the decorated object under `name`."""

        def enter(thing: T) -> T:
            self._add(Entry(name, about or first_line(thing), thing, self.facts))
            return thing

        return enter

    def __getitem__(self, name: str) -> T:
        entry = self.entry(name)
        if isinstance(entry.target, str):
            thing: T = imported(entry.target)
            return thing
        return entry.target

    def entry(self, name: str) -> Entry[T]:
        if name not in self._entries:
            raise UnknownName(f"no {self.kind} named {name!r}; {suggest(name, self._entries)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def _add(self, entry: Entry[T]) -> None:
        if entry.name in self._entries:
            raise ValueError(f"{self.kind} {entry.name!r} is registered already")
        self._entries[entry.name] = entry


def imported(where: str) -> Any:
    """Return the object that lives at "module:attribute"."""
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def first_line(thing: object) -> str:
    """Return the first line of an object's docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]
