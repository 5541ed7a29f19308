"""What the server counts, for Prometheus."""

from collections import Counter as Tally
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from evaluator.grading import Grade
from evaluator.serving.admission import Queue

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]


class Metrics:
    """Counts of one server, in a registry of its own."""

    def __init__(self, queue: Queue) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tagrpo_grade_requests", "Requests answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "tagrpo_grade_request_seconds",
            "From the first byte of a request to the last byte of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._grades = Counter(
            "tagrpo_grades", "Grades returned.", ["route", "value", "reason"], registry=self._registry
        )
        waiting = Gauge("tagrpo_grade_cases_waiting", "Cases in flight.", registry=self._registry)
        waiting.set_function(lambda: queue.cases)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def graded(self, route: str, grades: Sequence[Grade]) -> None:
        """Count grades by value and reason."""
        for (value, reason), count in Tally((grade.value.value, grade.reason) for grade in grades).items():
            self._grades.labels(route, value, reason).inc(count)

    def text(self) -> bytes:
        """Return all counts as Prometheus reads them."""
        return generate_latest(self._registry)
