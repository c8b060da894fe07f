"""A1 and A9: kills at random moments, and lives that are hardly longer than a snapshot takes."""

import random
from collections.abc import Callable
from pathlib import Path

from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import Life, ask_child, in_child, pause
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, Subject, silent

SAMPLES, FEWEST = 1500, 8  # of the stream: for the bar, and for each kill if there are fewer
LONGEST_PAUSE = 0.03  # seconds between a sample and the kill; about what a save takes


def kills_model(trial: Trial) -> Found:
    """Kill an estimator; the sabotage tells of a state before it is saved."""
    return killed(trial, lambda path, n: ModelSubject(path, n, *often(trial)))


def kills_run(trial: Trial) -> Found:
    """Kill a run; the sabotage tells of a snapshot before it is written."""
    return killed(trial, lambda path, n: RunSubject(path, n, *often(trial)))


def often(trial: Trial) -> tuple[int, bool]:
    """Return samples between two saves, and whether one is told of too early."""
    return (1, True) if trial.sabotage else (5, False)


def killed(trial: Trial, make: Callable[[Path, int], Subject]) -> Found:
    """Kill a subject so often, let it finish, and compare it with one that nobody disturbed."""
    ready()
    total = SAMPLES if trial.count >= 100 else max(20, FEWEST * trial.count)
    whole, other = make(trial.place / "whole", total), make(trial.place / "killed", total)
    found = trial.found(kills=0, samples=total, identical=0, lost=0, dup=0)
    kill_often(other, trial.count, trial.rng, found)
    code = in_child(lambda: other.live(silent))
    in_child(lambda: whole.live(silent))
    expected, result = ask_child(whole.result), ask_child(other.result)
    same = result is not None and result == expected
    twice = (result or {"samples": 0})["samples"] - total
    found.figures |= {"identical": int(same), "dup": max(0, twice)}
    found.expect(code == 0, f"the last life ended with {code}")
    found.expect(same, f"{result} is not {expected}")
    found.expect(twice == 0, f"{twice} samples too many or too few")
    return found


def kill_often(subject: Subject, kills: int, rng: random.Random, found: Found) -> None:
    """Kill a subject so often before it has finished, spread over all of its samples."""
    told = 0
    for n in range(kills):
        left = subject.total - subject.reached() - 10
        samples = rng.randint(0, max(0, 2 * left // (kills - n)))
        life = Life.begin(subject.live)
        life.hear(samples)
        pause(rng.random() * LONGEST_PAUSE)
        died = life.kill() < 0
        found.figures["kills"] += died
        found.expect(died, f"life {n} had ended before its kill")
        told, reached = max(told, life.saved), subject.reached()
        found.figures["lost"] += reached < told
        found.expect(reached >= told, f"step {told} was told, and {reached} is there")
