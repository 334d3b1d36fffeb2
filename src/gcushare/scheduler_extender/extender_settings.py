"""The settings of ``gcushare-scheduler-extender``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.core.placement import EXPECTED_FILL, POLICIES
from gcushare.core.whole_cards import WHOLE_CARD_POLICIES
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.parsers import Parser
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.scheduler_extender.claims.claims_settings import ClaimsSettings
from gcushare.scheduler_extender.dashboard.dashboard_settings import DashboardSettings
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import VerbsSettings
from gcushare.vendors import DEFAULT_VENDOR, Vendor
from gcushare.wire.contracts import EXTENDER, EXTENDER_PORT

NAME = EXTENDER


@dataclass(frozen=True, slots=True)
class NamedNodes:
    """Which of the fitting nodes a filter answer names: the best ``most``, or all if that is None.

    ``only_equal``: only those of them that score the same as the best.
    """

    most: int | None
    only_equal: bool = False


def _filter_answer_parser() -> Parser[NamedNodes]:
    def parse(raw: str) -> NamedNodes:
        if raw == "all":
            return NamedNodes(None)
        match = re.fullmatch(r"(equal|best):([1-9][0-9]{0,5})", raw)
        if match is None:
            raise ValueError("not one of all, best:N and equal:N")
        return NamedNodes(int(match[2]), only_equal=match[1] == "equal")

    def write(named: NamedNodes) -> str:
        return "all" if named.most is None else f"{'equal' if named.only_equal else 'best'}:{named.most}"

    return Parser("ANSWER", "all, or best:N or equal:N with N from 1", parse, write)


@settings
class PlacementSettings:
    """Placement."""

    vendor: tuple[Vendor, ...] = setting(
        parsers.vendors(),
        default=(DEFAULT_VENDOR,),
        help="Whose cards are scheduled; both serves each family under its own URL prefix in one process.",
    )
    node_policy: str = setting(
        parsers.one_of(*POLICIES, metavar="POLICY"),
        default=EXPECTED_FILL,
        help="Which nodes are preferred: "
        f"{', '.join(f'{each.name} {each.nodes}' for each in POLICIES.values())}. A pod may choose its own by the "
        "annotation gcushare.io/node-policy.",
    )
    card_policy: str = setting(
        parsers.one_of(*POLICIES, metavar="POLICY"),
        default=EXPECTED_FILL,
        help="Which card of a node is taken: "
        f"{', '.join(f'{each.name} {each.cards}' for each in POLICIES.values())}. A pod may choose its own by the "
        "annotation gcushare.io/card-policy.",
    )
    whole_card_policy: str = setting(
        parsers.one_of(*WHOLE_CARD_POLICIES, metavar="POLICY"),
        default="close",
        help="Which cards a pod is given whole: "
        f"{'; '.join(f'{each.name} {each.cards}' for each in WHOLE_CARD_POLICIES.values())}. A pod may choose its own "
        "by the annotation gcushare.io/whole-card-policy.",
    )
    filter_answer: NamedNodes = setting(
        _filter_answer_parser(),
        default=NamedNodes(20, only_equal=True),
        help="Which of the nodes that fit filter names: equal:N the best by the node policy and those that it holds "
        "equal to it, at most N; best:N the N best, so that the scheduler's other plugins choose as well; all leaves "
        "the choice to them.",
    )


@settings
class FollowSettings:
    """Following the cluster."""

    recount_interval: float = 60.0
    """Seconds between two recounts of the ledger from the pods seen; differences are logged and repaired."""
    confirm_after: float = 15.0
    """How many seconds a binding may stay without its watch event before the pod is read."""
    watch_timeout: float = 300.0
    """How many seconds a watch is asked to last before it is renewed."""
    watch_stall: float = 75.0
    """Seconds of silence after which a watch counts as dead; the API server sends a bookmark about every minute. A
    replica whose watch has been silent for a fifth longer leaves the Lease to others."""
    page_size: int = 250
    """Objects per page of a list; a page is in memory as JSON, about 1 MiB per 250 pods."""


@settings
class ExtenderSettings:
    """The settings of ``gcushare-scheduler-extender``."""

    placement: PlacementSettings = group(PlacementSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=EXTENDER_PORT)
    verbs: VerbsSettings = group(VerbsSettings)
    election: ElectionSettings = group(ElectionSettings, lease_name=NAME)
    follow: FollowSettings = group(FollowSettings)
    dashboard: DashboardSettings = group(DashboardSettings)
    claims: ClaimsSettings = group(ClaimsSettings)
    kube: KubeSettings = group(KubeSettings)
    log: LogSettings = group(LogSettings)

    def find_conflicts(self) -> Iterator[str]:
        """One port has one certificate."""
        if self.verbs.tls_from_verbs_secret and self.serve.tls_cert_file is not None:
            yield (
                f"tls-cert-file {str(self.serve.tls_cert_file)!r} and tls-from-verbs-secret name two certificates for "
                "one port: set one of them"
            )


PROGRAM = Program(
    name=NAME,
    summary="Serve kube-scheduler as its extender: which nodes have a card that can hold a pod, which are best, and "
    "which card the pod gets. It watches Nodes and Pods. It writes Bindings, Events, its Lease, one annotation on a "
    "waiting pod when room for it becomes free, and a Secret if it makes the scheduler's certificates. With --claims "
    "it watches Namespaces, ResourceClaims and ResourceClaimTemplates too, and writes the last and a label of Nodes.",
    settings=ExtenderSettings,
    examples=(
        (f"{NAME} --vendor both", "serve Enflame and NVIDIA cards from within a cluster"),
        (f"{NAME} --kubeconfig ~/.kube/config --no-leader-elect", "one replica, outside the cluster"),
        (f"{NAME} --node-policy spread --filter-answer all", "spread over nodes and name every node that fits"),
        (
            f"{NAME} --verbs tls --verbs-secret kube-system/gcushare-scheduler-extender-verbs",
            "answer the scheduler over mutual TLS alone, with certificates that it makes and renews",
        ),
        (f"{NAME} --claims --verbs off", "serve a cluster whose nodes all give their cards as claims"),
    ),
    notes="Its endpoints are listed at / of the port it listens on.",
)
