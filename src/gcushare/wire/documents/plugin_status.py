"""A device plugin's /status: the cards and pods of one node, as a document.

The plugin writes it; ``--status``, ``gcushare cards`` and ``gcushare doctor`` read it and may be of another release. So
fields are only added, and a field that the first plugins did not report has a default.
"""

from __future__ import annotations

import msgspec

from gcushare.core.cards import InventoryCard, LeftOutCard
from gcushare.wire.untrusted_json import BoundedJsonDecoder, Count

MAX_STATUS_BYTES = 64 << 20
"""Far above the status of a node that is full of pods (some 300 KB). It bounds an answer that never ends."""


class _StatusPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts: camelCase, as the other documents."""


class UseStatus(_StatusPart, frozen=True):
    """What a card is doing and how its driver runs it. A field is null if the library does not report it.

    ``ecc``, ``mig`` and ``persistence`` say whether these are on. ``processes`` has bytes by host process id,
    ``process_utilization`` percents of the chip's time, ``process_names`` programs.
    """

    memory_used_bytes: Count | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    utilization_percent: float | None = None
    fan_percent: float | None = None
    performance_state: Count | None = None
    compute_mode: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    power_limit_watts: float | None = None
    cuda_version: str | None = None
    processes: dict[Count, Count] = {}
    process_utilization: dict[Count, float] = {}
    process_names: dict[Count, str] = {}


class CardStatus(InventoryCard, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """One card: what the node offers of it, and who holds it.

    ``lost_bytes`` fit no whole unit, ``promised_units`` are kept for pods that were not admitted yet. ``mode`` is free,
    shared or whole ("" if not reported), ``holders`` the pods that hold the card or for which it is kept, ``use`` null
    until the card was read. ``unattributed_bytes`` are those of processes that belong to no pod of this status, null if
    that is unknown. ``unrecorded_units`` are those of ``held_units`` that no pod's record names.
    """

    memory_bytes: Count
    numa_node: Count | None
    reserved_units: Count
    lost_bytes: Count
    held_units: Count
    promised_units: Count
    mode: str = ""
    holders: tuple[str, ...] = ()
    use: UseStatus | None = None
    unattributed_bytes: Count | None = None
    unrecorded_units: Count = 0


class PodOverUse(_StatusPart, frozen=True):
    """A pod's use of a card beyond its grant. ``since`` is written as Kubernetes writes times."""

    used_bytes: Count
    granted_bytes: Count
    peak_bytes: Count
    since: str


class OverUseStatus(_StatusPart, frozen=True):
    """How pods over their grant are handled: ``action`` is ``report`` or ``evict``.

    ``last`` is the outcome of the last decision to evict a pod. ``passed_over`` says why each other pod is not evicted.
    """

    action: str
    dry_run: bool = False
    last: str = ""
    passed_over: dict[str, str] = {}


class IdleStatus(_StatusPart, frozen=True):
    """How pods that do not use their cards are handled: ``action`` is ``report`` or ``evict``.

    ``outlook`` says of each idle pod what follows, ``doubts`` of others why it is not known whether they use a card.
    ``last`` is the outcome of the last decision to evict one.
    """

    action: str
    after_seconds: float
    last: str = ""
    outlook: dict[str, str] = {}
    doubts: dict[str, str] = {}


class PodOnNode(_StatusPart, frozen=True):
    """One pod: what its record says, what the kubelet gave it, and which containers the kubelet has not shown yet.

    ``recorded_cards`` are empty without a record (the first plugins wrote null). ``cards`` are the cards that it holds,
    or that are kept for it; ``whole`` says that it has all of each. ``used_by_card`` are the bytes that its processes
    use. It is null if the plugin does not report use by pod, and lacks cards whose library does not list processes.
    ``used_by_driver`` are the cards of it whose bytes the driver counts; the others' are sums over processes.
    ``over_use`` is by card, while the pod is over its grant; null likewise. ``idle_since``: since when it has not
    used its cards, "" if it is not idle. ``highest_by_card``: the most that it used since ``seen_since``, when this
    plugin saw it first; null and "" before. ``utilization_by_card`` are percents of the
    chip's time; it lacks cards whose library does not sample processes. ``uid`` is "" but for callers of
    the same machine and for those with a client certificate.
    """

    pod: str
    uid: str
    units: Count
    recorded_cards: tuple[Count, ...] | None
    assigned: bool
    held_by_card: dict[Count, Count]
    containers: dict[str, dict[Count, Count]]
    unconfirmed: tuple[str, ...]
    cards: tuple[Count, ...] = ()
    whole: bool = False
    used_by_card: dict[Count, Count] | None = None
    used_by_driver: tuple[Count, ...] = ()
    utilization_by_card: dict[Count, float] | None = None
    over_use: dict[Count, PodOverUse] | None = None
    idle_since: str = ""
    highest_by_card: dict[Count, Count] | None = None
    seen_since: str = ""


class UnreadableStatus(_StatusPart, frozen=True):
    """A pod that cannot be read, and why."""

    pod: str
    reason: str


class ClaimedDevice(msgspec.Struct, frozen=True, rename="camel"):
    """What a claim holds of one card."""

    device: str
    memory_bytes: Count
    whole: bool


class ClaimOnNode(_StatusPart, frozen=True):
    """A claim that is prepared, or is being prepared."""

    claim: str
    uid: str
    is_complete: bool
    devices: tuple[ClaimedDevice, ...]


class SlicesStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How many ResourceSlices of the node are in the cluster, and whether they are up to date."""

    published: Count
    is_current: bool


class PluginStatus(_StatusPart, frozen=True, kw_only=True):
    """The document. ``problems`` names each part of the plugin that has a problem; it is empty if there is none.

    ``node_group`` is the group of nodes whose settings it has, "" for those of no group. ``modes`` is what the node
    hands out, in the words of its inventory: ``memory``, ``whole``, ``claims``. ``pod_use`` is why it does not report
    what each pod uses: "" if it does, null where it was not asked for. ``over_use`` null likewise, and ``idle``, which
    is null if it is off too.
    ``order`` (of the cards in the slices), ``claims`` and ``slices`` are of a node that serves claims.
    """

    version: str
    vendor: str
    node: str
    node_group: str = ""
    problems: dict[str, str]
    unit: str | None
    driver: str = ""
    cards: tuple[CardStatus, ...]
    left_out: tuple[LeftOutCard, ...]
    pods: tuple[PodOnNode, ...]
    unreadable_pods: tuple[UnreadableStatus, ...]
    foreign_containers: Count = 0
    unconfirmed_allocations: Count = 0
    watch_age_seconds: float | None = None
    registrations: Count
    corrections: Count
    modes: tuple[str, ...] = ()
    pod_use: str | None = None
    over_use: OverUseStatus | None = None
    idle: IdleStatus | None = None
    order: tuple[Count, ...] = ()
    claims: tuple[ClaimOnNode, ...] = ()
    slices: SlicesStatus | None = None


PLUGIN_STATUS = BoundedJsonDecoder(PluginStatus, "a status of gcushare-device-plugin", limit_bytes=MAX_STATUS_BYTES)
"""Another program may have answered: its document is refused with ``RemoteContractError``."""
