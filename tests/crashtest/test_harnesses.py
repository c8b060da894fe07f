"""Every harness keeps its bar in small, and fails as soon as its protection is taken away."""

import json
import os
from pathlib import Path

import pytest

from children import Children
from earl.crashtest.catalogue import HARNESSES

# How often in the default suite; the full numbers are for the command.
SMALL = {
    "kills-model": 2,
    "kills-run": 2,
    "points-model": 2,
    "corruption-model": 3,
    "versions": 8,
    "locks": 2,
    "inputs": 60,
    "tiny-states": 3,
    "questions": 20,
    "nonfinite": 30,
    "capacity": 50,
    "hostile": 50,
    "configs": 60,
    "fuzz": 60,
    "bombs": 5,
    "predict-while-learning": 0,
    "torn-reads": 40,
    "slow-clients": 6,
    "auth": 2,
    "log-lines": 25,
    "honest-health": 1,
}
SLOW = {  # they start new processes, the clock decides, or a faster one is like them
    "points-run": 4,
    "corruption-run": 4,
    "crash-loop-model": 400,
    "crash-loop-run": 400,
    "determinism": 2,
    "snapshot-cost": 400,
    "kills-service": 5,
    "exactly-once": 5,
    "io-errors": 12,
    "results": 6,
    "stall": 1,
    "clock": 10,
    "growth": 2000,
    "growth-tiny": 1000,
    "label-flood": 25,
    "power-cuts": 4,
    "disk-full": 60,
    "shutdown": 2,
    "staleness": 20,
    "overload": 1,
    "poison-removal": 12,
}
LATER = {*SLOW} - {"snapshot-cost"} | {"kills-run", "honest-health", "slow-clients"}
SABOTAGED = SMALL | SLOW | {"kills-model": 12, "kills-run": 12, "corruption-model": 20}
SABOTAGED |= {"corruption-run": 20, "points-model": 8, "points-run": 16, "versions": 40}
SABOTAGED |= {"io-errors": 2, "clock": 4, "locks": 1}
SABOTAGED |= {"crash-loop-model": 300, "crash-loop-run": 300, "snapshot-cost": 20, "hostile": 60}


def figures(children: Children, place: Path, *words: str) -> tuple[int, dict[str, object], str]:
    """Carry out a harness; return its exit code, its figures, and what it said."""
    done = children.run("-m", "earl.crashtest", *words, "--json", cwd=place, env=os.environ)
    assert done.stdout, done.stderr
    assert not list(place.iterdir()), "a harness leaves nothing where it was called"
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_a_harness_keeps_its_bar(name: str, children: Children, tmp_path: Path) -> None:
    count = (SMALL | SLOW)[name]
    code, found, said = figures(children, tmp_path, name, "--count", str(count))
    if "skipped" in found:
        pytest.skip(str(found["skipped"]))
    assert code == 0 and found["ok"], said
    assert f"seed=0 count={count}" in said


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LATER else n for n in HARNESSES]
)
def test_a_harness_fails_without_the_protection(
    name: str, children: Children, tmp_path: Path
) -> None:
    count = SABOTAGED[name]
    code, found, said = figures(children, tmp_path, name, "--count", str(count), "--sabotage")
    if "skipped" in found:
        pytest.skip(str(found["skipped"]))
    assert code == 1 and not found["ok"]
    assert f"sabotaged: {HARNESSES[name].control}" in said and "wrong: " in said


def test_without_a_name_all_are_listed_and_an_unknown_one_is_refused(
    children: Children, tmp_path: Path
) -> None:
    listed = children.run("-m", "earl.crashtest", cwd=tmp_path)
    assert listed.returncode == 0
    assert [line.split()[1] for line in listed.stdout.splitlines()] == list(HARNESSES)
    assert children.run("-m", "earl.crashtest", "no-such", cwd=tmp_path).returncode == 2


def test_the_last_line_holds_the_figures(children: Children, tmp_path: Path) -> None:
    done = children.run("-m", "earl.crashtest", "inputs", "--count", "5", cwd=tmp_path)
    *_, seed, last = done.stdout.splitlines()
    assert seed == "seed=0"
    assert last.startswith("calls=5 accepted=") and " s=" in last
