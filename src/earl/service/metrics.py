"""Counters for Prometheus, of one service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from earl.service.facts import Told

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """What is counted: requests as they end; the rest is read when somebody asks."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.registry = CollectorRegistry()
        names = ["method", "route", "status"]
        self._requests = Counter(
            "earl_requests_total", "Requests answered.", names, registry=self.registry
        )
        self._seconds = Histogram(
            "earl_request_seconds",
            "Time to the end of an answer.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        for name, about, value in (
            ("acknowledged", "Operations on the disk.", lambda: told.acknowledged),
            ("applied", "Operations that were done.", lambda: told.applied),
            ("waiting", "Operations that wait to be done.", lambda: told.waiting),
            ("model_seq", "The last operation of the published model.", lambda: told.published.seq),
            ("classes", "Classes that may be answered.", self._classes),
            ("accuracy", "Share of right answers before learning.", self._accuracy),
            ("rate", "Operations done a second.", lambda: told.rate),
            ("skipped", "Operations that came to nothing.", lambda: told.skipped),
            ("journal_bytes", "Bytes of the journal.", told.journal_bytes),
            ("healthy", "1 if nothing is wrong.", lambda: not told.reasons()),
        ):
            gauge = Gauge(f"earl_{name}", about, registry=self.registry)
            gauge.set_function(value)

    def _classes(self) -> int:
        return len(self.told.published.model.answered())

    def _accuracy(self) -> float:
        return self.told.published.model.history.all.accuracy

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = method if method in ("GET", "POST", "PATCH", "DELETE", "HEAD") else "other"
        self._requests.labels(known, route, str(status)).inc()
        if route != "/events":
            self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all numbers in Prometheus's text form."""
        return generate_latest(self.registry)
