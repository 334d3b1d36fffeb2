"""What a verb answers, and the metrics that all have: times, results, reasons; those of one are in ``metrics``."""

from __future__ import annotations

from collections.abc import Sequence
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

VERB_NAMES = ("filter", "prioritize", "preempt", "bind")
"""The scheduler's calls: the last part of their paths, and the metrics' label."""


@dataclass(frozen=True, slots=True)
class VerbAnswer:
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
    """Times and results of the scheduler's calls, by vendor and verb; and the drifts that recounts found."""

    def __init__(self, registry: CollectorRegistry, vendors: Sequence[str]) -> None:
        seconds = Histogram(
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
        drifts = Counter(
            "gcushare_ledger_drifts",
            "Pods, sums of nodes and orders of nodes that the recount found wrong.",
            ["vendor"],
            registry=registry,
        )
        # Made here, as 0, with resolved labels: Prometheus misses the first error of a series that begins with it.
        self.drifts = {vendor: drifts.labels(vendor) for vendor in vendors}
        """By vendor."""
        self._seconds = {(vendor, verb): seconds.labels(vendor, verb) for vendor in vendors for verb in VERB_NAMES}
        errors = ((*key, "error", reason) for key in self._seconds for reason in REASONS)
        self._counters = {labels: self._results.labels(*labels) for labels in errors}

    def count(self, vendor: str, verb: str, result: str, taken_s: float | None, reason: str) -> None:
        """Count one answer and its time, if that is given. ``reason``: why it is a refusal or an error."""
        if taken_s is not None:
            self._seconds[vendor, verb].observe(taken_s)
        labels = (vendor, verb, result, reason)
        counter = self._counters.get(labels)
        if counter is None:
            counter = self._counters[labels] = self._results.labels(*labels)
        counter.inc()
