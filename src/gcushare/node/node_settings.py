"""Settings of both programs of a node: its cards and their health, the kubelet, and memory limits."""

from __future__ import annotations

import enum
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from gcushare.cards.libraries import LIBRARY_FORMS, SOURCES
from gcushare.cards.process_owners import PROC
from gcushare.cards.unified_memory import AUTO_UNIFIED
from gcushare.node.over_use.idle_settings import IdleAction, IdleSettings
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, optional_setting, setting, settings, switch
from gcushare.vendors import DEFAULT_VENDOR, VENDORS, VENDORS_BY_NAME, Vendor

AUTO_UNIT = "auto"
DEFAULT_LONGEST_WAIT_S = 600.0
"""The longest grace period of a pod that we wait for. A training job may take minutes to write its last checkpoint."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Memory of each card that pods never get: a fixed amount, or a share of the card in percent.

    ``is_auto``: what the card's driver says that it keeps for itself.
    """

    bytes: int = 0
    percent: float = 0.0
    is_auto: bool = False

    def of(self, memory_bytes: int) -> int:
        """The reserved bytes of a card of that size, at most all of it."""
        return min(memory_bytes, self.bytes + -int(-memory_bytes * self.percent // 100))


NO_RESERVE, AUTO_RESERVE = Reserve(), Reserve(is_auto=True)


class Strategy(enum.Enum):
    """``env``: the container toolkit reads a variable. ``devices``: the device nodes. ``cdi``: names of a CDI spec."""

    ENV = "env"
    DEVICES = "devices"
    CDI = "cdi"


class OtherSystems(enum.Enum):
    """What follows if another system hands out cards of this node."""

    REFUSE = "refuse"
    ALLOW = "allow"


def _reserve() -> parsers.Parser[Reserve]:
    size = parsers.size_bytes(0, 1 << 50)

    def parse(raw: str) -> Reserve:
        if raw.strip().lower() == "auto":
            return AUTO_RESERVE
        match = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)%", raw.strip())
        if match is None:
            return Reserve(bytes=size.parse(raw))
        if Decimal(match[1]) > 100:
            raise ValueError("more than 100%")
        return Reserve(percent=float(match[1]))

    def show(reserve: Reserve) -> str:
        if reserve.is_auto:
            return "auto"
        return f"{reserve.percent:g}%" if reserve.percent else size.show(reserve.bytes)

    return parsers.Parser(
        "auto|SIZE", "auto, an amount such as 512MiB, or a share of each card such as 5%", parse, show
    )


def _unified_memory() -> parsers.Parser[int]:
    size = parsers.size_bytes(0, 1 << 43)

    def parse(raw: str) -> int:
        return AUTO_UNIFIED if raw.strip().lower() == "auto" else size.parse(raw)

    def show(amount: int) -> str:
        return "auto" if amount == AUTO_UNIFIED else size.show(amount)

    return parsers.Parser("auto|SIZE", "auto, or an amount such as 96Gi", parse, show)


@settings
class CardSourceSettings:
    """Cards."""

    vendor: Vendor = setting(
        parsers.by_word(VENDORS_BY_NAME),
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
        default=AUTO_RESERVE,
        help="Memory of each card that pods never get. auto is what NVIDIA's driver says that it keeps for itself; an "
        "amount or a share is rounded up to whole units; 0 offers all, as Aliyun's gpushare does.",
    )
    unified_memory: int = setting(
        _unified_memory(),
        default=0,
        help="What a card offers whose driver reports no memory of its own because it uses the machine's, such as "
        "GB10. auto is the machine's memory less a tenth, at least 8Gi, for the system. Such a card is left out with "
        "0.",
    )
    other_systems: OtherSystems = choice_setting(
        OtherSystems.REFUSE,
        help="If another system hands out cards of this node (HAMi, vgpu-manager, another device plugin, another DRA "
        "driver): refuse offers none until it is gone, because neither system knows what the other gives; allow is for "
        "an admin who has divided the cards between both, so that each sees its own only.",
    )
    poll_interval: float = setting(
        parsers.duration_s(0.2, 3600),
        default=5.0,
        help="Between two polls of the cards' health; events of the library shorten it. An admin raises it where a "
        "library "
        "takes long to answer.",
    )
    pod_use: bool = switch(
        help="Report how much memory each pod really uses: what NVIDIA's driver counts, with --memory-limit driver "
        "where it keeps limits; elsewhere by the processes on the cards and their control groups. That needs the "
        "host's process ids (hostPID: true in the pod): to a caller in a process namespace of its own NVML hides the "
        "others' processes, and their numbers mean nothing there.",
    )
    proc_root: Path = setting(
        parsers.path("DIR"),
        default=PROC,
        help="With --pod-use: where the host's /proc is to be read, if it is mounted elsewhere.",
    )


@settings
class HealthSettings:
    """Health of the cards."""

    application_xids: tuple[int, ...] = setting(
        parsers.comma_list(parsers.integer(1, 10_000, "XID")),
        default=(),
        help="NVIDIA XIDs that are a program's fault and make no card sick, in addition to 13, 31, 43, 45, 68 and 109.",
    )


@settings
class NodeSettings:
    """Kubelet."""

    node_name: str = setting(
        parsers.text("NAME", accepted="this node's name in the cluster"),
        default=socket.gethostname().lower(),
        env="NODE_NAME",
        help="This node's name in the cluster. A DaemonSet sets it from spec.nodeName; the default is the host's name.",
    )
    node_group: str | None = optional_setting(
        parsers.optional(parsers.text("NAME"), "no group"),
        help="The group of nodes whose settings these are, as the node's label gcushare.io/node-group names it. It is "
        "shown by --status and by gcushare cards, and changes nothing.",
    )
    kubelet_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/var/lib/kubelet"),
        help="The kubelet's own directory: its --root-dir, if an admin changed that. Below it, device-plugins must be "
        "/var/lib/kubelet/device-plugins of the host, which no --root-dir moves; the chart mounts it there.",
    )
    device_list_strategy: tuple[Strategy, ...] = setting(
        parsers.comma_list(parsers.choice(Strategy)),
        default=(Strategy.ENV,),
        help="How a container gets its card: env (the container toolkits' variable), devices (the device nodes without "
        "the driver's files, for images that bring its libraries), cdi (names of the vendor's CDI specification, which "
        "is written here unless the toolkit writes it); several with commas. cdi needs CDI enabled in the container "
        "runtime, as it is by default in containerd 2 and CRI-O; claims need it with every strategy, "
        "because variables of a claim come by CDI.",
    )
    driver_dirs: tuple[Path, ...] = setting(
        parsers.comma_list(parsers.path("DIR")),
        default=(),
        help="With the strategy devices: directories or files of the driver on the host, such as /usr/local/nvidia or "
        "/usr/lib/libefml.so, that every container with a card gets read-only at the same place. The container "
        "toolkits bring these themselves with env.",
    )
    cdi_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/var/run/cdi"),
        help="Where CDI specifications are written: the vendor's with the strategy cdi, and those of prepared claims. "
        "Without that strategy the vendor's is removed once nothing uses it.",
    )


LIMITED_LIBRARY = "nvml"
"""Both means of limiting memory are NVIDIA's: for the cards that this library manages."""


class MemoryLimit(enum.Enum):
    """What keeps a pod from allocating more than it was granted: nothing, NVIDIA's driver, or MPS."""

    NONE = "none"
    DRIVER = "driver"
    MPS = "mps"


class Fallback(enum.Enum):
    """What becomes of cards on which memory cannot be limited: no new pods, pods without a limit, or MPS limits."""

    REFUSE = "refuse"
    UNLIMITED = "unlimited"
    MPS = "mps"


@settings
class LimitSettings:
    """Memory limits."""

    memory_limit: MemoryLimit = choice_setting(
        MemoryLimit.NONE,
        help="What keeps a pod from allocating more card memory than it was granted: none; driver, NVIDIA's driver 615 "
        "or newer, which keeps the limit that this program sets for the pod's control group (of version 2); mps, "
        "NVIDIA's Multi-Process Service, whose control daemon runs in a pod of its own on the node. With mps the "
        "limit is one of each process, not of the container.",
    )
    limit_fallback: Fallback = choice_setting(
        Fallback.REFUSE,
        help="What becomes of cards on which memory cannot be limited (an older driver, a card that is too old, an MPS "
        "daemon that does not answer): refuse lets no new pods on them, and no container start whose limit cannot be "
        "set; unlimited lets pods run there without a limit and says so; mps, with --memory-limit driver, has MPS "
        "limit them, and refuses where that cannot either.",
    )
    cgroup_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/sys/fs/cgroup"),
        help="With --memory-limit driver: where the host's control groups are to be read; reading is enough.",
    )
    mps_root: Path = setting(
        parsers.path("DIR"),
        default=Path("/run/gcushare/mps"),
        help="With mps for one of both: the folder, the same on the host and here, of the daemon's pipes (pipe), "
        "shared memory (shm) and logs. Containers get its pipes and shared memory mounted.",
    )

    @property
    def uses_mps(self) -> bool:
        """Whether MPS limits memory, or stands in for the driver."""
        return self.memory_limit is MemoryLimit.MPS or self.limit_fallback is Fallback.MPS


def use_conflicts(
    cards: CardSourceSettings, over_use: OverUseSettings, idle: IdleSettings, limits: LimitSettings
) -> Iterator[str]:
    """No pod is evicted on figures that are not read, and a dry run needs something to rehearse."""
    is_evicting, evicts_idle = over_use.over_use is Action.EVICT, idle.idle is IdleAction.EVICT
    for flag in ("--over-use evict",) * is_evicting + ("--idle evict",) * evicts_idle:
        if not cards.pod_use:
            yield f"{flag} needs --pod-use: what each pod uses is not known without it"
    if evicts_idle and idle.idle_after < 3 * cards.poll_interval:
        yield (
            f"--idle evict takes at least three readings: --idle-after {idle.idle_after:g}s is less than three times "
            f"--poll-interval {cards.poll_interval:g}s; give a longer time, or poll more often"
        )
    if limits.limit_fallback is Fallback.MPS and limits.memory_limit is not MemoryLimit.DRIVER:
        yield "--limit-fallback mps stands in for the driver: give --memory-limit driver, or mps instead of it"
    if limits.memory_limit is not MemoryLimit.NONE and cards.vendor.library.name != LIMITED_LIBRARY:
        able = " or ".join(vendor.name for vendor in VENDORS if vendor.library.name == LIMITED_LIBRARY)
        given = f"--memory-limit {limits.memory_limit.value}"
        yield f"{given} limits memory of NVIDIA cards: give --vendor {able}, or --memory-limit none"
    if over_use.dry_run and not is_evicting and not evicts_idle:
        yield "--dry-run says what --over-use evict or --idle evict would do: give one too, or leave --dry-run out"
