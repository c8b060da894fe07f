"""Values over the stream: what curves show, read from histories by step."""

from collections.abc import Callable
from typing import TypeAlias

from earl.experiments.runs.records import RunRecord
from earl.report.groups import Group
from earl.report.statistics import Spread, spread

WINDOW = 500  # samples of the moving average of online accuracy
Read: TypeAlias = Callable[[RunRecord], dict[int, float]]  # values by step


def over_seeds(group: Group, read: Read) -> dict[int, Spread]:
    """Return mean and deviation at each step for which all seeds have a value."""
    values = [read(run) for run in group.runs.values()]
    common = [step for step in values[0] if all(step in others for others in values)]
    return {step: spread([of_seed[step] for of_seed in values]) for step in common}


def accuracy(run: RunRecord) -> dict[int, float]:
    return {e.step: 100 * e.accuracy for e in run.history}


def window(run: RunRecord) -> int:
    """Return over how many samples online accuracy is averaged, at the least."""
    every = run.history[0].step
    return max(every, min(WINDOW, run.samples // 10 // every * every))


def moving_average(run: RunRecord) -> dict[int, float]:
    """Return online accuracy in percent over the last samples; at the beginning over all so far."""
    counts = {0: 0} | {e.step: e.online_correct for e in run.history}
    steps, length = list(counts), window(run)
    found, start = {}, 0
    for step in steps[1:]:
        while steps[start + 1] <= step - length:
            start += 1
        since = steps[start]
        found[step] = 100 * (counts[step] - counts[since]) / (step - since)
    return found


def reading_of(name: str) -> Read:
    """Return a function that takes a number of that name from a history."""
    return lambda run: {e.step: e.numbers[name] for e in run.history if name in e.numbers}


def percent_of(name: str) -> Read:
    read = reading_of(name)
    return lambda run: {step: 100 * value for step, value in read(run).items()}
