"""What `earl serve` may need at most: as a table, as JSON, and as one line when it starts."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earl.cli.text import complain, page, plain_table, print_json, say
from earl.errors import InvalidSetting

if TYPE_CHECKING:
    from earl.service.bounds import Bounds
    from earl.service.limits import Limits
    from earl.service.service import Service

UNITS = {"": 1, **{unit: 1000**n for n, unit in enumerate(("k", "m", "g", "t"), 1)}}
UNITS |= {f"{unit}i": 1024**n for n, unit in enumerate(("k", "m", "g", "t"), 1)}


def parse_size(text: str, option: str) -> int:
    """Return a number of bytes that a user gives with a unit.

    >>> parse_size("1.5GB", "--max-memory"), parse_size("2 GiB", "--max-memory")
    (1500000000, 2147483648)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", text.strip().lower())
    if found is None or found[2] not in UNITS or float(found[1]) == 0:
        raise InvalidSetting(f"{option} {text!r} must be a size, as 500MB, 2GB or 1.5GiB")
    return int(float(found[1]) * UNITS[found[2]])


def tell_bounds(
    state: Path, given: dict[str, Any], limits: "Limits", replica: bool, as_json: bool
) -> None:
    """Print what a service would need at most; TooLarge if that is more than it may have."""
    from earl.service.begun import found_in
    from earl.service.bounds import bounds_of, disk_short

    parameters, known = found_in(state, given)
    bounds = bounds_of(parameters, limits, known=known, replica=replica)
    short = disk_short(state, bounds, limits)
    if as_json:
        sums = {"most_memory": bounds.most_memory, "most_disk": bounds.most_disk}
        more = {"allowed_memory": limits.memory, "disk_short": short}
        print_json(asdict(bounds) | sums | more)
    else:
        tell_table(bounds)
        if short is not None:
            complain(short)
    bounds.check(limits.memory)


def tell_table(bounds: "Bounds") -> None:
    """Print all items, and what the sums rest on."""
    table = plain_table("at most", numbers=("MB",))
    table.add_column("what it is, or what changes it")
    for kind, items in (("memory", bounds.memory), ("disk", bounds.disk)):
        for item in items:
            table.add_row(item.name, f"{item.bytes / 1e6:,.1f}", item.hint)
        table.add_row(f"all {kind}", f"{sum(i.bytes for i in items) / 1e6:,.1f}", "", style="bold")
    page().print(table, markup=False)
    say(f"\n{bounds.line()}.")
    if bounds.assumed:
        say("Nothing bounds the number of classes, and more of them need more: set --max-classes.")


def tell_line(service: "Service") -> None:
    """Print in one line what a service that starts may need at most, where that was computed."""
    from earl.service.bounds import disk_short

    bounds, limits = service.told.bounds, service.limits
    if bounds is None:
        return
    say(f"{bounds.line()}; see: earl serve --check")
    short = disk_short(service.told.folder, bounds, limits)
    if short is not None:
        complain(short)
