"""What can be said about a data set without decoding it: `earl data info`."""

from pathlib import Path
from typing import Any

from earl.data.cache import cached_entries, read_manifest
from earl.data.download import ARCHIVES
from earl.errors import DataNotFound
from earl.experiments.catalogue import DATASETS
from earl.experiments.loading import DataOptions, source_of
from earl.experiments.names import Name
from earl.experiments.places import Places
from earl.experiments.recipes import recipe
from earl.experiments.registry import imported


def describe(text: str, places: Places) -> dict[str, Any]:
    """Return where a data set is or should be, what is prepared of it, and its recipe."""
    name = Name.read(text)
    facts: dict[str, Any] = {"name": str(name), "about": DATASETS.entry(name.kind).about}
    if DATASETS.entry(name.kind).facts.find:
        facts |= whereabouts(name, places)
    chosen = dict(recipe(name.kind))
    return facts | ({"settings": chosen} if chosen else {})


def whereabouts(name: Name, places: Places) -> dict[str, Any]:
    """Return whether a data set is there, and in which layout."""
    source = source_of(name, DataOptions(), places)
    try:
        found = imported(DATASETS.entry(name.kind).facts.find)(source)
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
