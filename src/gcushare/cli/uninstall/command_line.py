"""The command ``python3 -m gcushare.cli.uninstall``: what the chart runs after the device plugin is gone."""

from __future__ import annotations

from gcushare._version import __version__
from gcushare.cli.uninstall.leftovers import Cleanup
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.groups import KubeSettings
from gcushare.runtime.start import load
from gcushare.vendors import VENDORS, VENDORS_BY_NAME

NAME = "gcushare-uninstall"
BOTH = "both"


@settings
class UninstallSettings:
    """Uninstall."""

    vendor: str = setting(
        parsers.one_of(*VENDORS_BY_NAME, BOTH), default=BOTH, help="Whose resources and annotations are removed."
    )
    remove_node_label: bool = setting(
        parsers.boolean(),
        default=False,
        typed=True,
        help="Remove the label that had the plugin run on a node, too.",
    )
    wait_for_kubelet: float = setting(
        parsers.duration_s(0, 3600),
        default=0.0,
        help="How long to wait until every kubelet has forgotten the resource, five minutes after the plugin's end, "
        "and to remove the 0 that it leaves behind. 0s does not wait.",
    )
    kube: KubeSettings = group(KubeSettings)


PROGRAM = Program(
    name=NAME,
    summary="Remove card counts, memory and inventories of GCUShare from the Nodes, once its device plugin is gone. "
    "Pods that hold cards go on.",
    version=__version__,
    settings=UninstallSettings,
    examples=((f"{NAME} --vendor enflame --wait-for-kubelet 6m", "leave nothing behind, not even a 0"),),
)


def main(surroundings: Surroundings | None = None) -> int:
    """Run the command; returns its exit code."""
    around = surroundings or Surroundings()

    def run(found: UninstallSettings) -> int:
        vendors = VENDORS if found.vendor == BOTH else (VENDORS_BY_NAME[found.vendor],)
        cleanup = Cleanup(vendors=vendors, with_labels=found.remove_node_label, wait_s=found.wait_for_kubelet)
        return load("gcushare.cli.uninstall.clean", "run")(cleanup, found.kube, around)

    return run_program(PROGRAM, run, surroundings=around)
