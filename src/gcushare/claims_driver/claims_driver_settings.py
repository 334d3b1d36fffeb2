"""The command ``gcushare-claims-driver``: its settings and help; the program is imported only when it runs."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare._version import __version__
from gcushare.core.placement import EXPECTED_FILL, POLICIES
from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, parse_memory_unit
from gcushare.node import node_settings
from gcushare.node.over_use.over_use_settings import OverUseSettings
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.vendors import VENDORS
from gcushare.wire.contracts import CLAIMS_DRIVER, CLAIMS_DRIVER_PORT

COMPONENT = CLAIMS_DRIVER

CARD_POLICIES = tuple(name for name in POLICIES if name != EXPECTED_FILL)
"""Those that a fixed order of cards can express: what a request's loss is depends on the request."""


@settings
class ClaimCardSettings(node_settings.CardSourceSettings):
    """Cards."""

    memory_unit: str | None = setting(
        parsers.optional(parsers.one_of(*MEMORY_UNIT_NAMES, node_settings.AUTO_UNIT), "the vendor's own unit"),
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

    @property
    def unit(self) -> MemoryUnit:
        """What 1 of the memory resource stands for."""
        if self.memory_unit == node_settings.AUTO_UNIT:
            return max(map(parse_memory_unit, self.vendor.auto_units), key=lambda unit: unit.per_gib)
        return parse_memory_unit(self.memory_unit or self.vendor.default_unit)


@settings
class ClaimsDriverSettings:
    """Claims driver."""

    cards: ClaimCardSettings = group(ClaimCardSettings)
    over_use: OverUseSettings = group(OverUseSettings)
    limits: node_settings.MpsSettings = group(node_settings.MpsSettings)
    health: node_settings.HealthSettings = group(node_settings.HealthSettings)
    node: node_settings.NodeSettings = group(node_settings.NodeSettings)
    kube: KubeSettings = group(KubeSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=CLAIMS_DRIVER_PORT)
    log: LogSettings = group(LogSettings)

    def find_conflicts(self) -> Iterator[str]:
        """What the settings of cards, over-use and limits ask of each other."""
        return node_settings.use_conflicts(self.cards, self.over_use, self.limits)


PROGRAM = Program(
    name=COMPONENT,
    summary="Give this node's accelerator cards out as resource claims (Kubernetes 1.36 and later): publishes them as "
    "ResourceSlices, prepares allocated claims for the kubelet and reports the cards' health.",
    version=__version__,
    settings=ClaimsDriverSettings,
    examples=(
        ("gcushare-claims-driver --node-name node-1", "offer the cards that are found, in the vendor's own unit"),
        ("gcushare-claims-driver --memory-unit auto", "in the vendor's finest unit"),
        ("gcushare-claims-driver --cards simulated:cards.yaml", "cards from a file, for trying it out"),
    ),
    notes="Endpoints on --listen-port: /healthz, /readyz, /metrics, /status (cards and prepared claims, as JSON).",
)


def main(process: ProcessContext | None = None) -> int:
    """Run the command; returns its exit code."""

    def start(settings: ClaimsDriverSettings) -> int:
        from gcushare.claims_driver.app import run_claims_driver
        from gcushare.runtime.shutdown import run

        return run(lambda shutdown: run_claims_driver(settings, shutdown))

    return run_program(PROGRAM, start, log_settings=lambda settings: settings.log, process=process)
