"""A device plugin's /status: what one node believes of its cards and pods, as a document.

Written by the plugin, read by ``--status``, ``gcushare cards`` and ``gcushare doctor``, which may be of another
release: fields are only added, and one that the first plugin did not tell has a default.
"""

from __future__ import annotations

import msgspec

from gcushare.core.errors import RemoteContractError


class _Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts: camelCase, as the other documents."""


class UseStatus(_Document, frozen=True):
    """What a card is really doing; null is what its library does not tell. ``processes``: bytes by host process id."""

    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    utilization_percent: float | None = None
    processes: dict[int, int] = {}


class ClosureStatus(_Document, frozen=True):
    """That a card is closed to one use, ``memory`` or ``whole``: containers of a pod that is gone may run on.

    ``until``: when it opens at the latest, in seconds since the epoch; 0 while that cannot be said.
    """

    use: str
    pod: str
    until: int = 0


class CardStatus(_Document, frozen=True):
    """One card: ``lost_bytes`` fit no whole unit, ``promised_units`` are kept for pods that were not admitted yet.

    ``mode`` is free, shared or whole ("" from a plugin that does not tell), ``holders`` the pods that hold the card or
    for which it is kept, ``use`` null until the card was read, ``unattributed_bytes`` those of processes that belong to
    no pod of this status, null where that is not told. ``unrecorded_units`` are those of ``held_units`` that no pod's
    record tells of.
    """

    index: int
    uuid: str
    model: str
    serial: str
    pci: str
    numa_node: int | None
    memory_bytes: int
    units: int
    reserved_units: int
    lost_bytes: int
    held_units: int
    promised_units: int
    health: str
    reason: str
    cordoned: bool
    mode: str = ""
    holders: tuple[str, ...] = ()
    use: UseStatus | None = None
    unattributed_bytes: int | None = None
    closed: tuple[ClosureStatus, ...] = ()
    unrecorded_units: int = 0


class LeftOutStatus(_Document, frozen=True):
    """A card that is not shared, and why."""

    index: int
    uuid: str
    reason: str


class PodStatus(_Document, frozen=True):
    """One pod: what its record says, what the kubelet gave it, and which containers the kubelet has not shown yet.

    ``recorded_cards`` are empty without a record, for which the first plugins told null. ``cards`` are those that it
    holds, or that are kept for it; ``whole`` says that it has all of each.
    ``used_by_card`` are the bytes that its processes really use: null where the plugin does not tell whose processes
    are, and without a card whose library does not list them.
    """

    pod: str
    uid: str
    units: int
    recorded_cards: tuple[int, ...] | None
    assigned: bool
    held_by_card: dict[int, int]
    containers: dict[str, dict[int, int]]
    unconfirmed: tuple[str, ...]
    cards: tuple[int, ...] = ()
    whole: bool = False
    used_by_card: dict[int, int] | None = None


class UnreadableStatus(_Document, frozen=True):
    """A pod that cannot be read, and why."""

    pod: str
    reason: str


class NodeStatus(_Document, frozen=True, kw_only=True):
    """The whole. ``problems`` is by the part that has one, and empty when all is well.

    ``modes`` is what the node hands out, in the words of its inventory: ``memory``, ``whole``. ``pod_use`` is why it is
    not told what each pod uses: "" where it is, null where it was not asked for.
    """

    version: str
    vendor: str
    node: str
    problems: dict[str, str]
    unit: str | None
    driver: str = ""
    cards: tuple[CardStatus, ...]
    left_out: tuple[LeftOutStatus, ...]
    pods: tuple[PodStatus, ...]
    unreadable_pods: tuple[UnreadableStatus, ...]
    foreign_containers: int = 0
    unconfirmed_allocations: int = 0
    watch_age_seconds: float | None = None
    registrations: int
    corrections: int
    modes: tuple[str, ...] = ()
    pod_use: str | None = None


_decoder = msgspec.json.Decoder(NodeStatus)


def parse_node_status(body: bytes) -> NodeStatus:
    """Read the document.

    Raises:
        RemoteContractError: it is none; another program may answer there.
    """
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteContractError(f"this is no document of gcushare-device-plugin: {error}") from error
