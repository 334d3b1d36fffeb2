"""The claims driver's settings: every flag, variable and file key, with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gcushare.core.placement import EXPECTED_FILL, POLICIES
from gcushare.core.units import MEMORY_UNIT_NAMES
from gcushare.node.mps.mps_settings import MpsSettings
from gcushare.node.node_settings import AUTO_UNIT, CardSourceSettings, HealthSettings, NodeSettings, use_conflicts
from gcushare.node.over_use.over_use_settings import OverUseSettings
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
class KubeletSettings(NodeSettings):
    """Kubelet."""

    kubelet_dir: Path = setting(
        parsers.path("DIR"),
        default=Path("/var/lib/kubelet"),
        help="The kubelet's own directory, at the path at which the kubelet sees it: the driver's socket goes into "
        "plugins/DRIVER below it, its registration into plugins_registry.",
    )


@settings
class ClaimsDriverSettings:
    """Claims driver."""

    cards: ClaimCardSettings = group(ClaimCardSettings)
    over_use: OverUseSettings = group(OverUseSettings)
    limits: MpsSettings = group(MpsSettings)
    health: HealthSettings = group(HealthSettings)
    node: KubeletSettings = group(KubeletSettings)
    kube: KubeSettings = group(KubeSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=CLAIMS_DRIVER_PORT)
    log: LogSettings = group(LogSettings)

    def find_conflicts(self) -> Iterator[str]:
        """What the settings of cards, over-use and limits ask of each other."""
        return use_conflicts(self.cards, self.over_use, self.limits)
