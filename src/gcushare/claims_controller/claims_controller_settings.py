"""The command ``gcushare-claims-controller``: its settings and help; the program is imported only when it runs."""

from __future__ import annotations

from gcushare._version import __version__
from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, parse_memory_unit
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.vendors import DEFAULT_VENDOR, Vendor
from gcushare.wire.contracts import CLAIMS_CONTROLLER, CLAIMS_CONTROLLER_PORT

NAME = CLAIMS_CONTROLLER
_OWN_UNIT = "default"


@settings
class TemplateSettings:
    """Claims."""

    vendor: tuple[Vendor, ...] = setting(
        parsers.vendors(), default=(DEFAULT_VENDOR,), help="Whose cards are given as claims; both serves each family."
    )
    memory_unit: str = setting(
        parsers.one_of(_OWN_UNIT, *MEMORY_UNIT_NAMES, metavar="UNIT"),
        default=_OWN_UNIT,
        help="What 1 of the memory resource stands for in every claim; default is the vendor's own unit. It must be "
        "the unit of the claims drivers. Templates of another unit are replaced.",
    )
    unused_after: float = 3600.0
    """Seconds that a template is kept after the last waiting pod that named it: a Job that starts every half hour needs
    its template."""
    node_order: bool = setting(
        parsers.boolean(),
        default=True,
        help="Keep the label gcushare.io/claims-order on nodes that serve claims, by which kube-scheduler fills one "
        "node after the other.",
    )
    node_writes: float = 20.0
    """Labels of nodes that may be written per second, on average."""

    def unit_of(self, vendor: Vendor) -> MemoryUnit:
        """The unit of a vendor's memory resource."""
        return parse_memory_unit(vendor.default_unit if self.memory_unit == _OWN_UNIT else self.memory_unit)


@settings
class ControllerSettings:
    """The settings of ``gcushare-claims-controller``."""

    claims: TemplateSettings = group(TemplateSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=CLAIMS_CONTROLLER_PORT)
    election: ElectionSettings = group(
        ElectionSettings, lease_name=NAME, lease_duration=15.0, lease_renew_deadline=10.0, lease_retry=2.0
    )
    kube: KubeSettings = group(KubeSettings)
    log: LogSettings = group(LogSettings)


PROGRAM = Program(
    name=NAME,
    summary="Serve nodes that give cards as Dynamic Resource Allocation claims: make the ResourceClaimTemplates that "
    "pods name, delete unused ones, and keep the order in which kube-scheduler fills nodes. It watches Pods, "
    "Namespaces, Nodes, ResourceSlices, ResourceClaims and ResourceClaimTemplates, and writes the last, Events, its "
    "Lease and one label of Nodes.",
    version=__version__,
    settings=ControllerSettings,
    examples=(
        (f"{NAME} --vendor both", "serve Enflame and NVIDIA cards from within a cluster"),
        (f"{NAME} --kubeconfig ~/.kube/config --no-leader-elect", "one replica, outside the cluster"),
        (f"{NAME} --memory-unit 0.1 --no-node-order", "units of a tenth of a GB, and nodes as kube-scheduler likes"),
    ),
    notes="Its endpoints are /healthz, /readyz and /metrics of the port it listens on.",
)


def main(process: ProcessContext | None = None) -> int:
    """Run the program; returns its exit code."""

    def start(settings: ControllerSettings) -> int:
        from gcushare.claims_controller.app import run
        from gcushare.runtime.shutdown import run as run_until_shutdown

        return run_until_shutdown(lambda shutdown: run(settings, shutdown))

    return run_program(PROGRAM, start, log_settings=lambda settings: settings.log, process=process)
