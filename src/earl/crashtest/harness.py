"""What every harness is: a function that breaks things for a while, and says what it found."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from earl.errors import EarlError


@dataclass(frozen=True)
class Trial:
    """What a harness is given: an empty folder, a seed, how often, and whether it is sabotaged."""

    place: Path
    seed: int
    count: int
    sabotage: bool

    @property
    def rng(self) -> random.Random:
        """Draws that follow from the seed, from the beginning."""
        return random.Random(self.seed)

    def found(self, **figures: Any) -> "Found":
        """Return where to note what is found; a sabotaged harness ends at the first thing wrong."""
        return Found(figures, ends=self.sabotage)

    def folder(self, name: str) -> Path:
        """Return a new folder of this name."""
        path = self.place / name
        path.mkdir()
        return path


class SabotageFound(BaseException):
    """A sabotaged harness has found what it must find."""


@dataclass
class Found:
    """What a harness has counted, and a line for everything that is short of its bar."""

    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    ends: bool = False  # at the first thing that is wrong

    def expect(self, holds: bool, otherwise: str) -> bool:
        """Note a line unless something holds; tell whether it does."""
        if not holds:
            self.wrong.append(otherwise)
            if self.ends:
                raise SabotageFound(self)
        return holds

    def line(self) -> str:
        """Return the figures as one line."""
        return " ".join(f"{name}={value}" for name, value in self.figures.items())


@dataclass(frozen=True)
class Harness:
    """One harness: its bar, where its function is, how often by default, and its control."""

    bar: str
    module: str
    count: int
    about: str
    control: str  # what --sabotage takes away, so that the harness must fail

    def run(self, name: str, trial: Trial) -> Found:
        """Carry out the harness of this name; the seconds it took come last."""
        module = import_module(f"earl.crashtest.{self.module}")
        act: Callable[[Trial], Found] = getattr(module, name.replace("-", "_"))
        begun = time.monotonic()
        try:
            found = act(trial)
        except SabotageFound as caught:
            found = caught.args[0]
        except EarlError as error:
            found = Found({"error": type(error).__name__}, [str(error)])
        found.figures["s"] = round(time.monotonic() - begun, 1)  # without importing
        return found
