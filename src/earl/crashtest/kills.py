"""A1 and A9: kills at random moments, and lives that are hardly longer than a snapshot takes."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import Life, ask_child, in_child, pause
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, Subject, silent

SAMPLES, FEWEST = 1500, 8  # of the stream: for the bar, and for each kill if there are fewer
LONGEST_PAUSE = 0.03  # seconds between a sample and the kill; about what a save takes


@dataclass
class Tally:
    """How many lives were ended by a kill, and how many states were lost that had been told."""

    kills: int = 0
    lost: int = 0


def kills_model(trial: Trial) -> Found:
    """Kill an estimator; the sabotage tells of a state before it is saved."""
    return killed(trial, lambda path, n: ModelSubject(path, n, early=trial.sabotage))


def kills_run(trial: Trial) -> Found:
    """Kill a run; the sabotage tells of a snapshot before it is written."""
    return killed(trial, lambda path, n: RunSubject(path, n, early=trial.sabotage))


def killed(trial: Trial, make: Callable[[Path, int], Subject]) -> Found:
    """Kill a subject so often, let it finish, and compare it with one that nobody disturbed."""
    ready()
    total = SAMPLES if trial.count >= 100 else max(40, FEWEST * trial.count)
    whole, other = make(trial.place / "whole", total), make(trial.place / "killed", total)
    in_child(lambda: whole.live(silent))
    tally = kill_often(other, trial.count, trial.rng)
    code = in_child(lambda: other.live(silent))
    expected, result = ask_child(whole.result), ask_child(other.result)
    found = Found()
    found.expect(code == 0, f"the last life ended with {code}")
    found.expect(tally.kills == trial.count, f"only {tally.kills} lives were ended by a kill")
    found.expect(tally.lost == 0, f"{tally.lost} times a state was lost that had been told")
    found.expect(result is not None and result == expected, f"{result} is not {expected}")
    twice = (result or {"samples": 0})["samples"] - total
    found.expect(twice == 0, f"{twice} samples too many or too few")
    same = int(result is not None and result == expected)
    found.figures = {"kills": tally.kills, "samples": total, "identical": same}
    found.figures |= {"lost": tally.lost, "dup": max(0, twice)}
    return found


def kill_often(subject: Subject, kills: int, rng: random.Random) -> Tally:
    """Kill a subject so often before it has finished, spread over all of its samples."""
    tally, told = Tally(), 0
    for n in range(kills):
        left = subject.total - subject.reached() - 10
        samples = rng.randint(0, max(0, 2 * left // (kills - n)))
        life = Life.begin(subject.live)
        life.hear(samples)
        pause(rng.random() * LONGEST_PAUSE)
        tally.kills += life.kill() < 0
        told = max(told, life.saved)
        tally.lost += subject.reached() < told
    return tally
