"""What can be said about a data set without decoding it: `earl data info`."""

import importlib
from pathlib import Path
from typing import Any

from earl.data.cache import cached_entries, read_manifest
from earl.data.download import ARCHIVES
from earl.errors import DataNotFound
from earl.experiments.catalogue import DATASETS
from earl.experiments.loading import DataOptions, Name, source_of
from earl.experiments.places import Places
from earl.experiments.recipes import recipe

FINDERS = {
    "cifar10": "cifar:find10",
    "cifar100": "cifar:find100",
    "tiny-imagenet": "tiny_imagenet:find",
    "imagenet-200": "imagenet:find200",
    "imagenet-1k": "imagenet:find1k",
    "clear-10": "clear:find10",
    "clear-100": "clear:find100",
    "folder": "folder:find",
    "csv": "csv_list:find",
    "parquet": "parquet:find",
}


def describe(text: str, places: Places) -> dict[str, Any]:
    """Return where a data set is or should be, what is prepared of it, and its recipe."""
    name = Name.read(text)
    facts: dict[str, Any] = {"name": str(name), "about": DATASETS.entry(name.kind).about}
    if name.kind in FINDERS:
        facts |= whereabouts(name, places)
    chosen = dict(recipe(name.kind))
    return facts | ({"settings": chosen} if chosen else {})


def whereabouts(name: Name, places: Places) -> dict[str, Any]:
    """Return whether a data set is there, and in which layout."""
    source = source_of(name, DataOptions(), root=places.data_root, cache=places.cache_root)
    module, _, function = FINDERS[name.kind].partition(":")
    try:
        find = getattr(importlib.import_module(f"earl.data.sets.{module}"), function)
        found = find(source)
    except DataNotFound as error:
        archives = ARCHIVES.get(name.kind, ())
        urls = {"download": ", ".join(a.url for a in archives)} if archives else {}
        return {"found": False, "why": str(error), **urls}
    prepared = [manifest_line(e) for e in cached_entries(places.cache_root, found.name)]
    return {
        "found": True,
        "folder": str(found.path),
        "layout": found.layout,
        "prepared": "; ".join(prepared) or "no",
    }


def manifest_line(entry: Path) -> str:
    manifest = read_manifest(entry) or {}
    counts = " + ".join(str(split["images"]) for split in manifest["splits"].values())
    size = sum(file.stat().st_size for file in entry.iterdir())
    return f"{counts} images of {manifest['image'][-1]} px in {entry} ({size / 1e6:.0f} MB)"
