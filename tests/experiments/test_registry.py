"""Registries: names, what they suggest, and that objects are imported when asked for."""

import math
import sys

import pytest

from earl.errors import EarlError, UnknownName, suggest
from earl.experiments import catalogue
from earl.experiments.registry import Registry

REGISTRIES = {name: r for name, r in vars(catalogue).items() if isinstance(r, Registry)}
LISTED = [
    (kind, entry.name)
    for kind, registry in REGISTRIES.items()
    for entry in registry
    if isinstance(entry.target, str)  # ours; what tests register is an object
]


def animals():
    registry = Registry("animal")
    registry.list("cat", "math:pi", "purrs")
    registry.list("weasel", "math:e", "pops")
    return registry


# ---- one registry


def test_names_are_found_in_the_order_they_were_entered():
    registry = animals()
    assert registry.names() == ("cat", "weasel")
    assert [(entry.name, entry.about) for entry in registry] == [
        ("cat", "purrs"),
        ("weasel", "pops"),
    ]
    assert "cat" in registry and "dog" not in registry and 3 not in registry
    assert registry.entry("weasel").about == "pops"


def test_a_listed_name_gives_the_object_it_points_to():
    assert animals()["cat"] is math.pi


def test_a_listed_object_is_imported_only_when_asked_for(tmp_path, monkeypatch):
    (tmp_path / "heavy_module.py").write_text("def load():\n    return 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "heavy_module", raising=False)
    registry = Registry("thing")
    registry.list("heavy", "heavy_module:load", "takes a while")
    assert "heavy" in registry and list(registry) and registry.entry("heavy").about
    assert "heavy_module" not in sys.modules
    assert registry["heavy"]() == 42
    assert "heavy_module" in sys.modules
    monkeypatch.delitem(sys.modules, "heavy_module")


def test_the_decorator_enters_what_it_decorates_and_leaves_it_as_it_is():
    registry = Registry("animal")

    def bark():
        """Bark at the moon.

        And so on.
        """

    decorated = registry.register("dog")(bark)
    assert decorated is bark and registry["dog"] is bark
    assert registry.entry("dog").about == "Bark at the moon."

    @registry.register("cow", about="moos")
    class Cow:
        """Not this."""

    @registry.register("silent")
    def silent(): ...

    assert registry["cow"] is Cow and registry.entry("cow").about == "moos"
    assert registry.entry("silent").about == ""


def test_a_name_can_be_entered_once():
    registry = animals()
    with pytest.raises(ValueError, match=r"animal 'cat'"):
        registry.list("cat", "math:tau", "again")
    with pytest.raises(ValueError, match=r"animal 'weasel'"):
        registry.register("weasel")(object)
    assert registry.entry("cat").about == "purrs" and registry.names() == ("cat", "weasel")


@pytest.mark.parametrize(("wrong", "near"), [("caat", "cat"), ("wiesel", "weasel"), ("ct", "cat")])
def test_a_wrong_name_suggests_the_nearest_one(wrong, near):
    registry = animals()
    for ask in (registry.entry, registry.__getitem__):
        with pytest.raises(UnknownName) as error:
            ask(wrong)
        assert str(error.value) == f"no animal named {wrong!r}; did you mean {near!r}?"
        assert isinstance(error.value, EarlError) and isinstance(error.value, KeyError)


def test_a_name_like_no_other_is_answered_with_all_there_are():
    with pytest.raises(UnknownName, match="there are: cat, weasel"):
        animals()["xyz"]
    assert suggest("q", ("b", "a")) == "there are: a, b"


# ---- the catalogue


def test_the_catalogue_has_the_kinds_of_things_there_are():
    assert {"METHODS", "DATASETS", "STREAMS", "METRICS", "PROBES"} <= set(REGISTRIES)
    assert {"earl", "vanilla-etf", "er"} <= set(REGISTRIES["METHODS"].names())
    assert {"disjoint", "gaussian"} <= set(REGISTRIES["STREAMS"].names())
    assert {"A_AUC", "A_last", "AOA", "forgetting"} <= set(REGISTRIES["METRICS"].names())


@pytest.mark.parametrize(("kind", "name"), LISTED, ids=[f"{k}-{n}" for k, n in LISTED])
def test_every_listed_name_leads_to_something_callable(kind, name):
    assert callable(REGISTRIES[kind][name])
    assert REGISTRIES[kind].entry(name).about
