"""Metrics: pure functions of a history, so that a new one can be computed from old runs."""

from collections.abc import Sequence

from earl.errors import EarlError
from earl.evaluation.history import Evaluation, Metric

History = Sequence[Evaluation]


def a_auc(history: History) -> float:
    """Return A_AUC, the mean over all evaluations of the accuracy on the classes seen so far."""
    return sum(e.accuracy for e in require_evaluations(history)) / len(history)


def a_last(history: History) -> float:
    """Return A_last, the accuracy at the last evaluation."""
    return require_evaluations(history)[-1].accuracy


def a_auc_all(history: History) -> float:
    """Return A_AUC with test samples of all time buckets, as in the code behind the paper."""
    return sum(e.accuracy_all_domains for e in require_evaluations(history)) / len(history)


def a_last_all(history: History) -> float:
    """Return A_last with test samples of all time buckets."""
    return require_evaluations(history)[-1].accuracy_all_domains


def aoa(history: History) -> float:
    """Return AOA, the share of stream samples that were right before they were learned."""
    last = require_evaluations(history)[-1]
    return last.online_correct / max(1, last.online_total)


def forgetting(history: History) -> float:
    """Return the mean over classes of (best accuracy at an earlier task's end) - (last accuracy).

    The checkpoints are the last evaluation of each task; classes that were never right before are
    left out, and with a single checkpoint nothing can have been forgotten.
    """
    last_of_task = {e.task: e for e in require_evaluations(history)}
    *earlier, last = last_of_task.values()
    drops = []
    for c, total in last.total.items():
        best = max((e.correct[c] / e.total[c] for e in earlier if e.total.get(c)), default=0.0)
        if best > 0:
            drops.append(best - last.correct[c] / total)
    return sum(drops) / len(drops) if drops else 0.0


def a_new(history: History) -> float:
    """Return A_new, the mean over all evaluations of the accuracy on the classes that came last.

    These are the classes that were asked about for the first time when that last happened.
    """
    known: set[int] = set()
    newest: set[int] = set()
    found = []
    for e in require_evaluations(history):
        newest = e.total.keys() - known or newest
        known |= newest
        asked = sum(e.total[c] for c in newest)
        found.append(sum(e.correct[c] for c in newest) / max(1, asked))
    return sum(found) / len(found)


def of_part(metric: Metric, history: History, i: int, n: int) -> float:
    """Return a metric that is a mean over evaluations for the i-th of n equal parts of them.

    It may look at all that was before, as A_new does, so it is taken out of the means up to there.
    """
    first, last = len(history) * (i - 1) // n, len(history) * i // n
    before = first * metric(history[:first]) if first else 0.0
    return (last * metric(history[:last]) - before) / (last - first)


def require_evaluations(history: History) -> History:
    """Return the history unless it is empty."""
    if not history:
        raise EarlError("the history holds no evaluation yet")
    return history
