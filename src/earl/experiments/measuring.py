"""All metrics of a history at once, those from outside the package too."""

from earl.evaluation.metrics import History, require_evaluations
from earl.experiments.catalogue import METRICS

OVER_ALL_BUCKETS = ("A_AUC_all", "A_last_all")  # elsewhere they say nothing new


def measured(history: History) -> dict[str, float]:
    """Return all metrics by name; those over all time buckets only where there are buckets."""
    buckets = "accuracy_all_domains" in require_evaluations(history)[-1].extra
    names = [entry.name for entry in METRICS if buckets or entry.name not in OVER_ALL_BUCKETS]
    return {name: METRICS[name](history) for name in names}
