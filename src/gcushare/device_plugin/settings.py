"""The device plugin's settings: every flag, variable and file key, with its reason."""

from __future__ import annotations

import enum
import re
import socket
from decimal import Decimal
from pathlib import Path

from gcushare.core.units import MEMORY_UNIT_NAMES
from gcushare.device_plugin.delivery import Strategy
from gcushare.device_plugin.planning import AUTO_UNIT, NO_RESERVE, Reserve
from gcushare.runtime import parsers
from gcushare.runtime.groups import KubeSettings, LogSettings, ServeSettings
from gcushare.runtime.settings import group, setting, settings

STATUS_PORT = 32767
"""Beside the extender's 32766; the plugin uses the host's network only where an admin says so."""


class VendorName(enum.Enum):
    """Whose words the plugin speaks."""

    ENFLAME = "enflame"
    ALIYUN = "aliyun"


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
class CardSettings:
    """Cards."""

    vendor: VendorName = setting(
        parsers.choice(VendorName),
        default=VendorName.ENFLAME,
        help="Whose resource, annotations and variables are used: enflame.com/gcu-memory or aliyun.com/gpu-mem.",
    )
    cards: str = setting(
        parsers.text("SOURCE", accepted="auto, efml, nvml or simulated:FILE"),
        default="auto",
        help="Where the cards come from. auto asks the vendors' libraries and says what it found and why it passed "
        "over the rest; a simulated file is followed live.",
    )
    efml_library: Path | None = setting(
        parsers.optional(parsers.path("FILE"), "the usual places"),
        default=None,
        help="Enflame's management library.",
    )
    nvml_library: Path | None = setting(
        parsers.optional(parsers.path("FILE"), "the usual places"),
        default=None,
        help="NVIDIA's management library.",
    )
    memory_unit: str | None = setting(
        parsers.optional(parsers.one_of(*MEMORY_UNIT_NAMES, AUTO_UNIT), "the vendor's own unit"),
        default=None,
        help="The amount of memory that 1 in a pod's request stands for. The default is 1 (GB) for enflame and GiB for "
        "aliyun; auto takes the finest that the kubelet's 4 MiB message limit lets through.",
    )
    reserve: Reserve = setting(
        _reserve(),
        default=NO_RESERVE,
        help="Memory of each card that pods never get, for the driver; rounded up to whole units.",
    )
    fail_without_cards: bool = setting(
        parsers.boolean(),
        default=False,
        help="Exit when no card is found at start, instead of looking again: a DaemonSet's driver may be loaded later.",
    )
    poll_interval: float = setting(
        parsers.duration_s(0.2, 3600),
        default=5.0,
        help="Between two looks at the cards' health; events of the library shorten it.",
    )


@settings
class KubeletSettings:
    """Kubelet."""

    node_name: str = setting(
        parsers.text("NAME", accepted="this node's name in the cluster"),
        default=socket.gethostname().lower(),
        env="NODE_NAME",
        help="This node's name in the cluster. A DaemonSet sets it from spec.nodeName; the default is the host's name.",
    )
    device_plugin_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/var/lib/kubelet/device-plugins"),
        help="Where the kubelet's registration socket and its checkpoint are, and where the plugin's socket goes.",
    )
    pod_resources_socket: Path = setting(
        parsers.path("FILE"),
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        help="The kubelet's podresources socket, its own record of who holds which ids. Where it is missing, the "
        "checkpoint is read.",
    )
    wait_for_pod: float = setting(
        parsers.duration_s(0.0, 30.0),
        default=1.0,
        help="How long a call of the kubelet waits for the pod that it is about to appear in the plugin's watch.",
    )
    device_list_strategy: tuple[Strategy, ...] = setting(
        parsers.comma_list(parsers.choice(Strategy)),
        default=(Strategy.ENV,),
        help="How a container gets its card: env (the container toolkits' variable), devices (the device nodes, no "
        "toolkit needed), cdi (names of a CDI specification that the plugin writes); several with commas.",
    )
    cdi_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/var/run/cdi"),
        help="Where the CDI specification is written with the strategy cdi.",
    )


@settings
class PluginSettings:
    """Device plugin."""

    cards: CardSettings = group(CardSettings)
    kubelet: KubeletSettings = group(KubeletSettings)
    kube: KubeSettings = group(KubeSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=STATUS_PORT)
    log: LogSettings = group(LogSettings)
