"""The claims driver's settings: every flag, variable and file key, with its reason."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from gcushare.core.placement import EXPECTED_FILL, POLICIES
from gcushare.core.units import MEMORY_UNIT_NAMES
from gcushare.node.card_source_settings import CardSourceSettings, HealthSettings
from gcushare.node.choices import AUTO_UNIT, Strategy
from gcushare.node.mps.mps_settings import MpsSettings
from gcushare.node.over_use.over_use_settings import OverUseSettings
from gcushare.node.use_settings import use_conflicts
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import group, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.vendors import VENDORS
from gcushare.wire.contracts import CLAIMS_DRIVER, CLAIMS_DRIVER_PORT

COMPONENT = CLAIMS_DRIVER

CARD_POLICIES = tuple(name for name in POLICIES if name != EXPECTED_FILL)
"""Those that a fixed order of cards can express: what a request's loss is depends on the request."""


@settings
class ClaimCardSettings(CardSourceSettings):
    """Cards."""

    memory_unit: str | None = setting(
        parsers.optional(parsers.one_of(*MEMORY_UNIT_NAMES, AUTO_UNIT), "the vendor's own unit"),
        default=None,
        help="The smallest amount of memory that a claim can hold, and the step by which amounts are rounded up. The "
        f"default is {', '.join(f'{vendor.default_unit} for {vendor.name}' for vendor in VENDORS)}, where 1 is a GB; "
        "auto takes the vendor's finest: slices have no limit of units as the kubelet's messages have.",
    )
    card_policy: str = setting(
        parsers.one_of(*CARD_POLICIES),
        default="binpack",
        help="The order of the node's cards in the ResourceSlice; the scheduler takes the first one that fits: "
        + "; ".join(f"{name}: {POLICIES[name].cards} first" for name in CARD_POLICIES)
        + ".",
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
    kubelet_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/var/lib/kubelet"),
        help="The kubelet's own directory, at the path at which the kubelet sees it: the driver's socket goes into "
        "plugins/DRIVER below it, its registration into plugins_registry.",
    )
    device_list_strategy: tuple[Strategy, ...] = setting(
        parsers.comma_list(parsers.choice(Strategy)),
        default=(Strategy.ENV,),
        help="How a container gets its card: env (the container toolkits' variable), devices (the device nodes without "
        "the driver's files, for images that bring its libraries), cdi (names of the vendor's CDI specification, which "
        "the driver writes unless the toolkit does); several with commas. Variables always come by CDI, so the "
        "container runtime must have it enabled, as containerd 2 and CRI-O do by default.",
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
        help="Where the CDI specification of each prepared claim is written.",
    )


@settings
class ClaimsDriverSettings:
    """Claims driver."""

    cards: ClaimCardSettings = group(ClaimCardSettings)
    over_use: OverUseSettings = group(OverUseSettings)
    limits: MpsSettings = group(MpsSettings)
    health: HealthSettings = group(HealthSettings)
    node: NodeSettings = group(NodeSettings)
    kube: KubeSettings = group(KubeSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=CLAIMS_DRIVER_PORT)
    log: LogSettings = group(LogSettings)

    def find_conflicts(self) -> Iterator[str]:
        """What the settings of cards, over-use and limits ask of each other."""
        return use_conflicts(self.cards, self.over_use, self.limits)
