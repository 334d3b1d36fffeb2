"""The settings of ``gcushare defragment``."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cli.terminal.output import TextOrJson, text_or_json_flag
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, optional_setting, setting, settings, switch
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.vendors import VENDORS_BY_NAME

DEFRAGMENT = "gcushare defragment"
NO_ROOM = 3


@settings
class DefragmentSettings:
    """Room."""

    for_: int = setting(
        parsers.integer(1, 1 << 40),
        default=1,
        env="GCUSHARE_DEFRAGMENT_FOR",
        help="Memory units that are needed on one card, or with --whole the number of cards that are needed whole.",
    )
    whole: bool = switch(help="Whole cards of one node are needed.")
    vendor: str | None = optional_setting(
        parsers.optional(parsers.one_of(*VENDORS_BY_NAME), "the first that a node has cards of"), help="Whose cards."
    )
    output: TextOrJson = text_or_json_flag("text for people, or json.")
    kube: KubeSettings = group(KubeSettings)

    def request(self) -> CardRequest:
        """What room is made for."""
        return CardRequest(0, self.for_, whole=True) if self.whole else CardRequest(self.for_)

    def find_conflicts(self) -> Iterator[str]:
        """No node has that many cards."""
        if self.whole and self.for_ > 1024:
            yield f"for {counted(self.for_, 'whole card')} of one node: at most 1024 are looked for"


PROGRAM = Program(
    name=DEFRAGMENT,
    summary="Say which fewest pods, ended and placed again elsewhere, would make room for a request, and where each "
    "would go. The plan was carried out on a copy of the ledger before it is shown, with the commands that carry it "
    "out on the cluster. Nothing in the cluster is changed.",
    settings=DefragmentSettings,
    examples=(
        (f"{DEFRAGMENT} --for 12", "room for 12 units on one card"),
        (f"{DEFRAGMENT} --for 2 --whole", "two whole cards of one node"),
    ),
    exit_status={DONE: "There is room, or a plan that makes room.", NO_ROOM: "Moving pods makes no room."},
    notes="Never named are pods without a controller, of a DaemonSet, "
    "with several cards, with a higher priority, and those with cluster-autoscaler.kubernetes.io/safe-to-evict: "
    "'false' or descheduler.alpha.kubernetes.io/prefer-no-eviction: 'true'. Only cards are considered: whether "
    "kube-scheduler agrees (CPU, taints, affinity) is not known here. The commands need kubectl and the "
    "right to create pods/eviction; a pod that a PodDisruptionBudget protects stays until the budget allows it.",
)
