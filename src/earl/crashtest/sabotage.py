"""Taking a protection away: one function or number in the place of another."""

from typing import Any


def put(owner: Any, name: str, value: Any) -> None:
    """Put something in the place of what a module or a class has under a name."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name}: there is nothing to take away")
    setattr(owner, name, value)
