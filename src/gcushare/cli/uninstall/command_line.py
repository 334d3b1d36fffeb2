"""The command ``python3 -m gcushare.cli.uninstall``: what the chart runs after the device plugin is gone."""

from __future__ import annotations

import asyncio

from gcushare._version import __version__
from gcushare.cli.uninstall.clean import Cleaner, Wish
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import find_api_server
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.groups import KubeSettings
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


async def clean(found: UninstallSettings, around: Surroundings) -> int:
    """Clean every Node; returns the exit code."""
    vendors = VENDORS if found.vendor == BOTH else (VENDORS_BY_NAME[found.vendor],)
    wish = Wish(vendors=vendors, with_labels=found.remove_node_label, wait_s=found.wait_for_kubelet)
    config = find_api_server(found.kube.kubeconfig, found.kube.kube_context)

    def say(line: str) -> None:
        around.stdout.write(line + "\n")
        around.stdout.flush()

    async with KubeClient(config, program=NAME) as client:
        remembering = await Cleaner(client, wish, SystemClock(), say).run()
    for name in sorted(remembering):
        say(f"node/{name}: its kubelet shows the memory, not to be had, until 5 minutes after the plugin's end")
    return DONE


def main(surroundings: Surroundings | None = None) -> int:
    """Run the command; returns its exit code."""
    around = surroundings or Surroundings()
    return run_program(PROGRAM, lambda found: asyncio.run(clean(found, around)), surroundings=around)
