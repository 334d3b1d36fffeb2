"""Settings of a node's cards that the device plugin and the claims driver have in common."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from gcushare.cards.libraries import LIBRARY_FORMS, SOURCES
from gcushare.cards.process_owners import PROC
from gcushare.cards.worker.time_limits import DEFAULT_CALL_TIMEOUT_S
from gcushare.node.choices import NO_RESERVE, OtherSystems, Reserve
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting, settings
from gcushare.vendors import DEFAULT_VENDOR, VENDORS, VENDORS_BY_NAME, Vendor


def _vendor() -> parsers.Parser[Vendor]:
    """Read a vendor's name, ignoring case; the accepted ones are those of ``gcushare.vendors``."""
    names = tuple(VENDORS_BY_NAME)

    def parse(raw: str) -> Vendor:
        if raw.lower() not in VENDORS_BY_NAME:
            raise ValueError("not one of the accepted words")
        return VENDORS_BY_NAME[raw.lower()]

    return parsers.Parser("|".join(names), " or ".join(names), parse, lambda vendor: vendor.name, choices=names)


def _reserve() -> parsers.Parser[Reserve]:
    size = parsers.size_bytes(0, 1 << 50)

    def parse(raw: str) -> Reserve:
        match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)%", raw.strip())
        if match is None:
            return Reserve(bytes=size.parse(raw))
        if Decimal(match[1]) > 100:
            raise ValueError("more than 100%")
        return Reserve(percent=float(match[1]))

    def show(reserve: Reserve) -> str:
        return f"{reserve.percent:g}%" if reserve.percent else size.show(reserve.bytes)

    return parsers.Parser("SIZE", "an amount such as 512MiB, or a share of each card such as 5%", parse, show)


@settings
class CardSourceSettings:
    """Cards."""

    vendor: Vendor = setting(
        _vendor(),
        default=DEFAULT_VENDOR,
        help="Whose resource, annotations and variables are used: "
        f"{' or '.join(vendor.memory_resource for vendor in VENDORS)}.",
    )
    cards: str = setting(
        parsers.text("SOURCE", accepted=" or ".join(SOURCES)),
        default="auto",
        help="Where the cards come from. auto asks the vendors' libraries and says what it found and why it passed "
        "over the rest; a simulated file is followed live.",
    )
    card_library: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("NAME=FILE", accepted=" or ".join(LIBRARY_FORMS))),
        default=(),
        help="A vendor's management library that is not in the usual places, such as efml=/opt/libefml.so.",
    )
    reserve: Reserve = setting(
        _reserve(),
        default=NO_RESERVE,
        help="Memory of each card that pods never get, for the driver; rounded up to whole units.",
    )
    other_systems: OtherSystems = setting(
        parsers.choice(OtherSystems),
        default=OtherSystems.REFUSE,
        help="If another system hands out cards of this node (HAMi, vgpu-manager, another device plugin, another DRA "
        "driver): refuse offers none until it is gone, because neither system knows what the other gives; allow is for "
        "an admin who has divided the cards between both, so that each sees its own only.",
    )
    fail_without_cards: bool = setting(
        parsers.boolean(),
        default=False,
        help="Exit when no card is found at start, instead of looking again: a DaemonSet's driver may be loaded later.",
    )
    poll_interval: float = setting(
        parsers.duration_s(0.2, 3600),
        default=5.0,
        help="Between two polls of the cards' health; events of the library shorten it.",
    )
    pod_use: bool = setting(
        parsers.boolean(),
        default=False,
        help="Report how much memory each pod really uses, by the processes on the cards and their control groups. "
        "Needs the host's process ids (hostPID: true in the pod): to a caller in a process namespace of its own NVML "
        "hides the others' processes, and their numbers mean nothing there.",
    )
    proc_root: Path = setting(
        parsers.path("DIR"),
        default=PROC,
        help="With --pod-use: where the host's /proc is to be read.",
    )


@settings
class HealthSettings:
    """Health of the cards."""

    unhealthy_after: int = setting(
        parsers.integer(1, 100),
        default=3,
        help="Bad readings in a row before a card is sick: one hiccup of the driver moves no pods. A card's "
        "first reading, a lost card, a hanging library, a critical event and, on NVIDIA, a recovery action that the "
        "driver asks for or failed row remapping count at once.",
    )
    recover_after: float = setting(
        parsers.duration_s(0, 86400),
        default=30.0,
        help="How long a sick card must read well, and at least three times, before it takes new pods again.",
    )
    event_holds: float = setting(
        parsers.duration_s(0, 86400),
        default=300.0,
        help="How long a critical event (an XID, a double-bit ECC error) counts whatever readings say: after most of "
        "them reads still succeed for a while.",
    )
    application_xids: tuple[int, ...] = setting(
        parsers.comma_list(parsers.integer(1, 10_000, "XID")),
        default=(),
        help="NVIDIA XIDs that are a program's fault and make no card sick, in addition to 13, 31, 43, 45, 68 and 109.",
    )
    card_call_timeout: float = setting(
        parsers.duration_s(0.1, 300),
        default=DEFAULT_CALL_TIMEOUT_S,
        help="How long one call into the vendor's library may take before it counts as hanging, which makes its card "
        "sick. Such calls read a register; a second would be long already.",
    )
