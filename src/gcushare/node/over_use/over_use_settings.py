"""What is done about pods that use more of a card than they were granted: flags and variables."""

from __future__ import annotations

import enum
import re

from gcushare.core.over_use.eviction import When
from gcushare.core.over_use.tracking import Tolerance
from gcushare.core.units import GIB
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, setting, settings, switch


class Action(enum.Enum):
    """What follows from over-use: it is reported, or the pod is evicted too."""

    REPORT = "report"
    EVICT = "evict"


_PODS = parsers.matching(
    re.compile(r"[a-z0-9*?]([-a-z0-9*?]*)(/[a-z0-9*?][-.a-z0-9*?]*)?"),
    "NAMESPACE[/POD]",
    accepted="a namespace or namespace/name, each with * and ?",
    refusal="not a namespace and not a namespace/name",
)


@settings
class OverUseSettings:
    """Pods over their grant (with --pod-use)."""

    over_use: Action = choice_setting(
        Action.REPORT,
        help="What follows when a pod uses more of a card than it was granted: report (Event, annotation, metrics), or "
        "evict, which also ends it through the Eviction API, so that disruption budgets are respected. evict needs the "
        "right to create pods/eviction, which the chart gives only with it.",
    )
    over_use_when: When = choice_setting(
        When.DANGER,
        help="With --over-use evict: danger evicts only if a card has less free memory than its pods were granted and "
        "do not use yet; always evicts every pod that is over.",
    )
    over_use_tolerance: float = setting(
        parsers.number(0, 100, "PERCENT"),
        default=5.0,
        help="Percent of its grant that a pod may use beyond it before it is over; 256 MiB count if that is more.",
    )
    over_use_least: int = GIB // 4
    """Bytes that a pod may use beyond its grant in any case: a framework's context is not its author's doing."""
    over_use_looks: int = setting(
        parsers.integer(1, 100),
        default=2,
        help="Polls in a row (--poll-interval apart) above the limit before a pod is over, and within it before it no "
        "longer is. For an admin who wants one poll to count: 1.",
    )
    over_use_pause: float = 60.0
    """Least seconds between two evictions of this node, refused ones included: the memory of the last one must have
    come free before another pod is chosen."""
    over_use_exempt: tuple[str, ...] = setting(
        parsers.comma_list(_PODS),
        default=("kube-system",),
        help="Pods that are never evicted, by namespace or namespace/name, each with * and ?. An admin's choice: "
        "nothing that a pod's author writes exempts it.",
    )
    dry_run: bool = switch(
        help="With --over-use evict: say in the log, by Event and in --status which pod would be evicted, and evict "
        "none; --idle evict is then --idle report. It needs no further right.",
    )

    @property
    def tolerance(self) -> Tolerance:
        """How much beyond its grant a pod may be."""
        return Tolerance(self.over_use_tolerance, self.over_use_least)
