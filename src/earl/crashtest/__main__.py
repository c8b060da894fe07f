"""`python -m earl.crashtest NAME` carries out one harness; without a name it lists them."""

import argparse
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from earl.cli.text import complain, say
from earl.crashtest.catalogue import HARNESSES
from earl.crashtest.harness import Found, Trial

SHOWN = 10  # lines about what went wrong


def main(words: list[str]) -> int:
    """Carry out a command line; 0 if the harness keeps its bar, 1 if not, 2 if it is unknown."""
    asked = parser().parse_args(words)
    if asked.name is None:
        say("\n".join(f"{h.bar:<4} {n:<22} {h.about}" for n, h in HARNESSES.items()))
        return 0
    harness = HARNESSES[asked.name]
    count = harness.count if asked.count is None else asked.count
    complain(f"{harness.bar} {asked.name}: seed={asked.seed} count={count}")
    if asked.sabotage:
        complain(f"sabotaged: {harness.control}")
    with TemporaryDirectory(prefix="earl-crashtest-", dir=asked.place) as place:
        trial = Trial(Path(place), asked.seed, count, asked.sabotage)
        found = harness.run(asked.name, trial)
    return tell(found, asked.seed, as_json=asked.json)


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser("python -m earl.crashtest", description=__doc__)
    made.add_argument("name", nargs="?", choices=list(HARNESSES), metavar="NAME")
    made.add_argument("--seed", type=int, default=0, help="all that is drawn follows from it")
    made.add_argument("--count", type=int, help="how often; the bar's number by default")
    made.add_argument("--sabotage", action="store_true", help="take the protection away: must fail")
    made.add_argument("--place", help="a folder for its files, which are removed in the end")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def tell(found: Found, seed: int, *, as_json: bool) -> int:
    """Print what was found, the figures on the last line; return the exit code."""
    for line in found.wrong[:SHOWN]:
        complain(f"wrong: {line}")
    if as_json:
        say(json.dumps({"seed": seed, "ok": not found.wrong, **found.figures}))
    else:
        say(f"seed={seed}\n{found.line()}")
    sys.stdout.flush()
    return int(bool(found.wrong))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch is imported by the harness
    sys.exit(main(sys.argv[1:]))
