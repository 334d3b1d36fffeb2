"""What a verb answers, and the metrics that count it: times, results, and the reasons of refusals and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from gcushare.core.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    Refused,
    RemoteContractError,
    RetryableError,
)
from gcushare.kube.errors import UnknownOutcomeError

_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)

Count = Callable[[str, float | None, str], None]
"""Counts one answer: its result, its seconds or None, and the reason if it is a refusal or an error."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to kube-scheduler. ``result``, ``vendor`` and ``reason`` are labels of `gcushare_extender_results`.

    ``reason``: why it is a refusal or an error; empty for all others.
    """

    body: bytes
    result: str
    vendor: str
    reason: str = ""


# The first match wins, so subclasses come before their base.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (RemoteContractError, "malformed"),
    (Refused, "declined"),
    (NotFoundError, "gone"),
    (ConflictError, "conflict"),
    (ForbiddenError, "forbidden"),
    (UnknownOutcomeError, "unknown_outcome"),
    (RetryableError, "unavailable"),
)
REASONS = (*(reason for _, reason in _REASONS), "defect")
"""All values of `reason_of`."""


def reason_of(error: Exception) -> str:
    """The metrics' label `reason` of a failed call, by the class of its error; ``defect`` for any other."""
    return next((reason for family, reason in _REASONS if isinstance(error, family)), "defect")


def result_of(error: Exception) -> str:
    """The metrics' label `result` of a failed call."""
    return "refused" if isinstance(error, Refused | RemoteContractError) else "error"


class RequestMetrics:
    """Times and results of the scheduler's calls, by vendor and verb."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "gcushare_extender_request_seconds",
            "Time from a call of the scheduler to its answer, without the network.",
            ["vendor", "verb"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._results = Counter(
            "gcushare_extender_results",
            "Answers by result, and refusals and errors by reason.",
            ["vendor", "verb", "result", "reason"],
            registry=registry,
        )
        self._drifts = Counter(
            "gcushare_ledger_drifts",
            "Pods, sums of nodes and orders of nodes that the recount found wrong.",
            ["vendor"],
            registry=registry,
        )

    def drifts_of(self, vendor: str) -> Counter:
        """The counter of one vendor's drifts; it exists, as 0, from the start."""
        return self._drifts.labels(vendor)

    def count_for(self, vendor: str, verb: str, errors: Iterable[str]) -> Count:
        """Make the counter of one verb, with its labels resolved once.

        The series of the reasons in ``errors`` exist, as 0, from the start: Prometheus misses the first error of a
        series that begins with it.
        """
        seconds = self._seconds.labels(vendor, verb)
        counters = {("error", reason): self._results.labels(vendor, verb, "error", reason) for reason in errors}

        def count(result: str, taken_s: float | None, reason: str) -> None:
            if taken_s is not None:
                seconds.observe(taken_s)
            counter = counters.get((result, reason))
            if counter is None:
                counter = counters[result, reason] = self._results.labels(vendor, verb, result, reason)
            counter.inc()

        return count
