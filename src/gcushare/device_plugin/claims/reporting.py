"""What is shown of claims: metrics, ``/status``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric

from gcushare.core.cards import SERVES_CLAIMS
from gcushare.device_plugin.claims.claim_checks import ClaimChecks
from gcushare.device_plugin.claims.claim_pods import ClaimHolder, ClaimPods
from gcushare.device_plugin.claims.node_agent import ClaimsAgent
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from gcushare.device_plugin.claims.registration import Registration
from gcushare.device_plugin.claims.service import CALLS
from gcushare.device_plugin.claims.slice_publisher import SlicePublisher
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.node.card_and_pod_metrics import NodeMetrics, ObservedCards
from gcushare.node.status import describe_node, make_checks
from gcushare.runtime.health import HealthChecks
from gcushare.runtime.metrics import counter, gauge
from gcushare.wire.contracts import DEVICE_PLUGIN
from gcushare.wire.documents.plugin_status import ClaimedDevice, ClaimOnNode, PluginStatus, SlicesStatus

_LATENCY_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClaims(ObservedCards):
    """The parts whose state is shown. ``recovery`` says why the checkpoint is not usable yet, "" if it is."""

    pods: ClaimPods
    agent: ClaimsAgent
    checks: ClaimChecks
    prepared: PreparedClaims
    publisher: SlicePublisher
    writer: CardsPublisher
    registration: Registration
    recovery: Callable[[], str]

    def problems(self) -> dict[str, str]:
        """What is not as it should be, by part."""
        found = {
            "checkpoint": self.recovery(),
            "cards": self.agent.problem,
            "claims": self.checks.problem,
            "slices": self.publisher.problem,
            "inventory": self.writer.problem,
            "registration": self.registration.problem,
            "cdi": self.cdi.problem,
            "memoryLimit": self.limit_problem,
            "overUse": self.over_use.problem,
        }
        return {part: problem for part, problem in found.items() if problem}


class ClaimsMetrics(NodeMetrics[ObservedClaims]):
    """The metrics of claims; of calls gcushare_claims_call_seconds, gcushare_claims_failed_calls and
    gcushare_claims_api_requests.
    """

    def __init__(self) -> None:
        super().__init__(
            DEVICE_PLUGIN,
            "gcushare_claims",
            CALLS,
            "Time of the kubelet's calls for each claim, by call and outcome (ok, the kind of error, or defect).",
            "Claims of the kubelet's calls that were refused or failed.",
            _LATENCY_BUCKETS_S,
        )
        for call in CALLS:
            self._calls.labels(call, "ok")

    def read(self, observed: ObservedClaims) -> Iterator[Metric]:
        """Read the state of claims, slices and registration."""
        publisher, names, where = observed.publisher, ("vendor", "node"), (observed.vendor, observed.node)
        is_registered = not observed.registration.problem
        for name, text, value in (
            ("gcushare_claims_prepared_claims", "Claims that are prepared.", len(observed.prepared.claims)),
            ("gcushare_claims_slices", "ResourceSlices that stand in the cluster.", publisher.published),
            ("gcushare_claims_slices_current", "1 if the ResourceSlices say what they should.", publisher.is_current),
            ("gcushare_claims_registered", "1 if the kubelet has registered the driver.", is_registered),
        ):
            yield gauge(name, text, names, [(where, value)])
        rounds = [(where, publisher.rounds)]
        yield counter("gcushare_claims_slice_rounds", "Rounds of writes of the slices.", names, rounds)


def describe(seen: ObservedClaims) -> PluginStatus:
    """The document of ``/status``: as that of resources, and the claims and slices."""
    holders = sorted(seen.pods.entries.values(), key=lambda holder: str(holder.ref))
    return describe_node(
        seen,
        ((holder, _describe_claims(holder)) for holder in holders),
        lambda index, whole: (str(h.ref) for h in holders if index in h.units and h.is_whole == whole),
        unit=None,
        modes=(SERVES_CLAIMS,),
        unreadable_pods=(),
        registrations=seen.registration.registrations,
        corrections=0,
        order=seen.agent.order,
        claims=tuple(
            ClaimOnNode(
                claim=claim.key,
                uid=claim.uid,
                is_complete=claim.is_complete,
                devices=tuple(ClaimedDevice(d.device, d.memory_bytes, d.whole) for d in claim.devices),
            )
            for claim in sorted(seen.prepared.claims.values(), key=lambda claim: claim.key)
        ),
        slices=SlicesStatus(seen.publisher.published, seen.publisher.is_current),
    )


def _describe_claims(holder: ClaimHolder) -> dict[str, Any]:
    return {
        "units": sum(holder.units.values()),
        "recorded_cards": holder.taken_cards,
        "assigned": True,
        "held_by_card": dict(sorted(holder.units.items())),
        "containers": {},
        "unconfirmed": (),
        "cards": holder.taken_cards,
    }


def make_health(seen: ObservedClaims, card_polls: Callable[[], int], poll_interval_s: float) -> HealthChecks:
    """Return the checks of /healthz and /readyz. ``card_polls`` counts the rounds of the cards task."""
    health = make_checks("driver", seen.problems, card_polls, poll_interval_s)
    health.add_live("registration task", seen.registration.pulse.check)
    health.add_ready("registration socket", seen.registration.probe)
    return health
