"""The metrics of a history that its summary has, those from outside the package too."""

from earl.evaluation.metrics import History, require_evaluations
from earl.experiments.catalogue import METRICS

OVER_ALL_BUCKETS = ("A_AUC_all", "A_last_all")  # elsewhere they say nothing new
WHEN_ASKED = ("A_new",)  # for a closer look


def measured(history: History) -> dict[str, float]:
    """Return the metrics of a summary, by name.

    Those over all time buckets are left out where there are none, and what is for a closer look.
    """
    buckets = "accuracy_all_domains" in require_evaluations(history)[-1].extra
    left_out = WHEN_ASKED if buckets else WHEN_ASKED + OVER_ALL_BUCKETS
    return {
        entry.name: METRICS[entry.name](history) for entry in METRICS if entry.name not in left_out
    }
