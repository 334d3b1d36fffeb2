"""What every way shows of a node in its status document and health: cards with their holders and use, over-use.

The schema is ``gcushare.wire.documents.plugin_status``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gcushare._version import __version__
from gcushare.core.card_state import CardMode
from gcushare.core.cards import CardUse, Inventory
from gcushare.core.wording import utc_text
from gcushare.node.card_and_pod_metrics import ObservedCards
from gcushare.node.over_use.evictor import EvictionCause
from gcushare.node.over_use.parts import OverUseParts
from gcushare.node.pod_use import PodUse
from gcushare.node.pods import PodWithCards
from gcushare.runtime.health import CounterHeartbeat, HealthChecks
from gcushare.wire.documents.plugin_status import (
    CardStatus,
    IdleStatus,
    OverUseStatus,
    PluginStatus,
    PodOnNode,
    PodOverUse,
    UseStatus,
)

REGISTRATION_AGE_S = 60.0
"""The registration task makes two rounds per second, and waits a few seconds at most for the kubelet's answer."""
POLL_GRACE_S = 300.0
"""Added for the cards task: opening a library may take a minute, and attempts are some time apart."""


def make_checks(
    name: str, find_problems: Callable[[], Mapping[str, str]], polls: Callable[[], int], poll_interval_s: float
) -> HealthChecks:
    """The checks of /healthz and /readyz that every way has: that the cards are still polled, and its problems.

    ``name``: that of the check of problems; ``polls`` counts the rounds of the cards task.
    """
    health = HealthChecks()
    health.add_live("cards task", CounterHeartbeat("cards", polls, 3 * poll_interval_s + POLL_GRACE_S).check)

    async def check_problems() -> str | None:
        return "; ".join(f"{part}: {problem}" for part, problem in find_problems().items()) or None

    health.add_ready(name, check_problems)
    return health


def describe_node(
    seen: ObservedCards,
    pods: Iterable[tuple[PodWithCards, Mapping[str, Any]]],
    holders: Callable[[int, bool], Iterable[str]],
    **own: Any,
) -> PluginStatus:
    """The document of ``/status``. ``pods`` and the document itself have more fields, which only one way knows.

    ``holders`` are the names of those that have a card whole, or that share it.
    """
    inventory, pod_use = seen.inventory(), seen.pod_use
    used = pod_use.latest if pod_use is not None else None
    if inventory is not None:
        own |= {"unit": inventory.unit.name, "driver": inventory.driver, "modes": inventory.modes}
    return PluginStatus(
        version=__version__,
        vendor=seen.vendor,
        node=seen.node,
        node_group=seen.node_group,
        problems=seen.problems(),
        cards=_card_statuses(seen, inventory, used, holders),
        left_out=seen.cards().left_out,
        pods=tuple(_describe_pod(pod, used, seen.over_use, fields) for pod, fields in pods),
        pod_use=pod_use.problem if pod_use is not None else None,
        over_use=_describe_action(seen.over_use),
        idle=_describe_idle(seen.over_use),
        **own,
    )


def without_uids(status: PluginStatus) -> PluginStatus:
    """The document for callers of the network that are not known: uids of pods and claims are for those who may read
    the objects.
    """
    pods = tuple(msgspec.structs.replace(each, uid="") for each in status.pods)
    return msgspec.structs.replace(
        status, pods=pods, claims=tuple(msgspec.structs.replace(each, uid="") for each in status.claims)
    )


def is_own_machine(address: str | None) -> bool:
    """Whether a caller's address is of the loopback: a process of the same pod, or of the host if it shares that."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    return found.is_loopback or bool((mapped := getattr(found, "ipv4_mapped", None)) and mapped.is_loopback)


def _describe_pod(pod: PodWithCards, used: PodUse | None, over_use: OverUseParts, own: Mapping[str, Any]) -> PodOnNode:
    uid = pod.ref.uid
    highest = over_use.highest.by_pod.get(uid)
    return PodOnNode(
        pod=str(pod.ref),
        uid=uid,
        whole=pod.is_whole,
        used_by_card=dict(sorted(used.by_pod.get(uid, {}).items())) if used is not None else None,
        used_by_driver=used.cards_by_driver(uid) if used is not None else (),
        utilization_by_card=dict(sorted(used.utilization.get(uid, {}).items())) if used is not None else None,
        over_use=_describe_over_uses(over_use, uid),
        idle_since=over_use.idle.notes.get(uid, "") if over_use.idle is not None else "",
        highest_by_card=dict(highest.bytes) if highest is not None else None,
        seen_since=utc_text(int(highest.since)) if highest is not None else "",
        **own,
    )


def _card_statuses(
    observed: ObservedCards,
    inventory: Inventory | None,
    used: PodUse | None,
    holders: Callable[[int, bool], Iterable[str]],
) -> tuple[CardStatus, ...]:
    if inventory is None:
        return ()
    sizes = inventory.units_by_card
    held, promised = observed.pods.held_units(sizes), observed.pods.promised()
    unrecorded = observed.pods.unrecorded_units(sizes)
    # Match by uuid: after a card was lost, another card may have its index.
    found = observed.cards()
    uses = {each.uuid: found.uses.get(each.index) for each in found.cards}
    statuses = []
    for card in inventory.cards:
        wholes, sharers = ({*holders(card.index, whole)} for whole in (True, False))
        mode = CardMode.WHOLE if wholes else CardMode.SHARED if sharers else CardMode.FREE
        statuses.append(
            CardStatus(
                **msgspec.structs.asdict(card),
                lost_bytes=inventory.unit.remainder_bytes(card.memory_bytes),
                held_units=held.get(card.index, 0),
                promised_units=promised.get(card.index, 0),
                mode=mode.value,
                holders=tuple(sorted(wholes | sharers)),
                use=_use(uses.get(card.uuid)),
                unattributed_bytes=_unlisted_bytes(observed, used, card.index),
                unrecorded_units=unrecorded.get(card.index, 0),
            )
        )
    return tuple(statuses)


def _unlisted_bytes(observed: ObservedCards, used: PodUse | None, index: int) -> int | None:
    """What processes use of a card that belong to no pod with cards."""
    if used is None or index not in used.unattributed:
        return None
    others = used.by_pod.keys() - observed.pods.entries.keys()
    return used.unattributed[index] + sum(used.by_pod[uid].get(index, 0) for uid in others)


def _use(use: CardUse | None) -> UseStatus | None:
    if use is None:
        return None
    # The fields have one name in both; what processes do is a map by process id, empty if it is not reported.
    found = {name: getattr(use, name) for name in UseStatus.__struct_fields__}
    by_process = {name: dict(sorted((found[name] or {}).items())) for name in found if name.startswith("process")}
    return UseStatus(**(found | by_process))


def _describe_over_uses(parts: OverUseParts, uid: str) -> dict[int, PodOverUse] | None:
    """A pod's over-use by card; None if it is unknown."""
    if parts.watch is None:
        return None
    return {
        index: PodOverUse(
            used_bytes=each.figures.used,
            granted_bytes=each.figures.granted,
            peak_bytes=each.peak,
            since=utc_text(int(each.since)),
        )
        for index, each in sorted(parts.watch.over.get(uid, {}).items())
    }


def _describe_action(parts: OverUseParts) -> OverUseStatus | None:
    """The action against over-use and its results; None if over-use is unknown."""
    if parts.watch is None:
        return None
    evictor = parts.evictor
    return OverUseStatus(
        action=parts.settings.over_use.value,
        dry_run=parts.settings.dry_run,
        last=evictor.last[EvictionCause.OVER_USE] if evictor is not None else "",
        passed_over=dict(sorted(evictor.decision.passed_over.items())) if evictor is not None else {},
    )


def _describe_idle(parts: OverUseParts) -> IdleStatus | None:
    """The idle pods and what follows; None if it is not known or not asked for."""
    watch, evictor = parts.idle, parts.evictor
    if watch is None:
        return None
    waits = evictor.idle_decision.passed_over if evictor is not None else {}
    outlook = {str(each.pod): waits.get(str(each.pod)) or watch.outlook(each) for each in watch.idle.values()}
    return IdleStatus(
        action=parts.idle_settings.idle.value,
        after_seconds=watch.rules.after_s,
        last=evictor.last[EvictionCause.IDLE] if evictor is not None else "",
        outlook=dict(sorted(outlook.items())),
        doubts=dict(sorted(watch.doubts.items())),
    )
