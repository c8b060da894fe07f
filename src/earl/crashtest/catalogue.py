"""The harnesses by name, in the order of the bars they check."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from earl.crashtest.harness import Harness


def read() -> dict[str, Harness]:
    """Return what the file beside this one says."""
    text = files("earl.crashtest").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {name: Harness(**fields) for name, fields in tomllib.loads(text).items()}


HARNESSES: Mapping[str, Harness] = read()
