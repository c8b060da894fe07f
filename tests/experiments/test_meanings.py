"""Every setting has a meaning, bounds that hold, and a source of its default."""

import json
import math
from pathlib import Path

import pytest

from children import Children
from earl.errors import InvalidSetting
from earl.experiments.catalogue import METHODS, STREAMS
from earl.experiments.experiment import Experiment
from earl.experiments.meanings import SOURCES, Meaning, meanings
from earl.experiments.options import Option

PAIRS = [(method, "gaussian") for method in METHODS.names()]
PAIRS += [("er", stream) for stream in STREAMS.names()]


def options_of(method: str, stream: str) -> list[Option]:
    experiment = Experiment(method=method, dataset="shapes", stream=stream)
    return [experiment.options()[name] for name in experiment.values()]


@pytest.mark.parametrize(("method", "stream"), PAIRS)
def test_every_setting_has_a_meaning_and_a_source(method: str, stream: str) -> None:
    for option in options_of(method, stream):
        assert option.meaning.about, f"settings.toml does not say what {option.name} means"
        assert option.meaning.source in SOURCES.values() and option.range()


def test_nothing_is_explained_that_does_not_exist() -> None:
    known: set[tuple[str, str]] = set()
    for method, stream in PAIRS:
        made = METHODS[method]
        class_name = getattr(made, "func", made).__name__
        for option in options_of(method, stream):
            known.add((class_name if option.part == "method" else option.part, option.name))
    listed = {(table, name) for table, entries in meanings().items() for name in entries}
    assert listed == known


@pytest.mark.parametrize(("method", "stream"), PAIRS)
def test_values_within_the_bounds_are_taken_and_those_beyond_are_refused(
    method: str, stream: str
) -> None:
    for option in options_of(method, stream):
        inside, outside = at_the_edges(option.meaning, option.kind is int)
        for value in inside:
            assert option.read(value) == value
        for value in outside:
            with pytest.raises(InvalidSetting, match=f"{option.name} = .* must be"):
                option.read(value)


def at_the_edges(meaning: Meaning, whole: bool) -> tuple[list[float], list[float]]:
    """Return the outermost values that are allowed, and those next to them that are not."""
    inside: list[float] = [v for v in (meaning.least, meaning.most) if v is not None]
    outside: list[float] = [v for v in (meaning.above, meaning.below) if v is not None]
    inside, outside = [*inside, *meaning.only], [*outside, *(v + 1 for v in meaning.only[-1:])]
    for v, beyond in ((meaning.least, -math.inf), (meaning.most, math.inf)):
        if v is not None:
            outside.append(v + math.copysign(1, beyond) if whole else math.nextafter(v, beyond))
    for v, within in ((meaning.above, math.inf), (meaning.below, -math.inf)):
        if v is not None:
            inside.append(v + math.copysign(1, within) if whole else math.nextafter(v, within))
    return inside, outside


@pytest.mark.parametrize(("method", "stream"), PAIRS)
def test_recipes_and_defaults_are_within_the_bounds(method: str, stream: str) -> None:
    for option in options_of(method, stream):
        assert option.meaning.allows(option.default), option


def test_bounds_are_said_in_words() -> None:
    assert Meaning(least=1).bounds() == "at least 1"
    assert Meaning(least=0, most=1).bounds() == "from 0 to 1"
    assert Meaning(above=0, most=1).bounds() == "above 0 and at most 1"
    assert Meaning(above=0, below=1).bounds() == "above 0 and below 1"
    assert Meaning(only=(8, 10)).bounds() == "one of 8, 10"
    assert Meaning().bounds() == ""


def test_a_setting_from_outside_needs_no_entry() -> None:
    @METHODS.register("bare", "for this test")
    def bare(backbone: object, setting: object, *, shade: float = 0.5) -> None: ...

    try:
        option = Experiment(method="bare", dataset="shapes", stream="disjoint").options()["shade"]
        assert option.read("-7") == -7 and option.range() == "a number"
    finally:
        del METHODS._entries["bare"]


def test_the_command_tells_values_meanings_and_sources(children: Children, tmp_path: Path) -> None:
    done = children.run("-m", "earl", "settings", "--method", "earl", "--json", cwd=tmp_path)
    shown = json.loads(done.stdout)
    assert shown["k"] == {
        "value": 15,
        "from": "paper",
        "meaning": "stored features that correct an answer",
        "takes": "at least 1",
    }
    assert shown["memory_size"]["value"] == 100 and shown["memory_size"]["from"] == "recipe"
    assert shown["negative"]["takes"] == "rotation, permutation, cutmix, noise"
    assert all(entry["meaning"] for entry in shown.values())
    lines = children.run("-m", "earl", "settings", cwd=tmp_path).stdout.splitlines()
    assert lines[0].split()[:3] == ["setting", "value", "from"] and len(lines) == 1 + len(shown)
