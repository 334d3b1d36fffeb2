"""What ``gcushare defragment`` can be told."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gcushare._version import __version__
from gcushare.core.requests import CardRequest
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.groups import KubeSettings
from gcushare.vendors import ALIYUN, ENFLAME

DEFRAGMENT = "gcushare defragment"
NO_ROOM = 3


class VendorName(enum.Enum):
    """Whose cards."""

    ENFLAME = ENFLAME.name
    ALIYUN = ALIYUN.name


class Output(enum.Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"


@settings
class DefragmentSettings:
    """Room."""

    wanted: int = setting(
        parsers.integer(1, 1 << 40),
        default=1,
        help="Memory units that are needed on one card, or with --whole the number of cards that are needed whole.",
    )
    whole: bool = setting(parsers.boolean(), default=False, help="Whole cards of one node are needed.")
    vendor: VendorName = setting(parsers.choice(VendorName), default=VendorName.ENFLAME, help="Whose cards.")
    most_priority: int = setting(
        parsers.integer(-(2**31), 2**31 - 1),
        default=0,
        help="The highest priority of pods that may be named; others stay where they are.",
    )
    output: Output = setting(parsers.choice(Output), default=Output.TEXT, short="-o", help="text for people, or json.")
    kube: KubeSettings = group(KubeSettings)

    def request(self) -> CardRequest:
        """What room is made for."""
        return CardRequest(0, self.wanted, whole=True) if self.whole else CardRequest(self.wanted)

    def find_conflicts(self) -> Iterator[str]:
        """No node has that many cards."""
        if self.whole and self.wanted > 1024:
            yield f"wanted {self.wanted} whole cards of one node: at most 1024 are looked for"


DEFRAGMENT_PROGRAM = Program(
    name=DEFRAGMENT,
    summary="Say which fewest pods, ended and placed again elsewhere, would make room for a request, and where each "
    "would go. The plan was carried out on a copy of the ledger before it is shown. Nothing in the cluster is changed.",
    version=__version__,
    settings=DefragmentSettings,
    examples=(
        (f"{DEFRAGMENT} --wanted 12", "room for 12 units on one card"),
        (f"{DEFRAGMENT} --wanted 2 --whole", "two whole cards of one node"),
    ),
    notes=f"Its own exit status: 0 where there is room or a plan, {NO_ROOM} where no pods that may be moved would make "
    "room. Never named are pods without a controller, of a DaemonSet, with several cards, with a higher "
    "priority, and those with cluster-autoscaler.kubernetes.io/safe-to-evict: 'false' or "
    "descheduler.alpha.kubernetes.io/prefer-no-eviction: 'true'. Cards alone are looked at: whether kube-scheduler "
    "agrees (CPU, taints, affinity), and whether a PodDisruptionBudget allows it, is not known here.",
)
