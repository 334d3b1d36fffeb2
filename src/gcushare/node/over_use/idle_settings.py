"""What is done about pods that do not use their cards: flags and variables."""

from __future__ import annotations

import enum
import re

from gcushare.core.over_use.idleness import IdleRules
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, setting, settings


class IdleAction(enum.Enum):
    """What follows from idleness: nothing is looked for, it is reported, or the pod is evicted too."""

    OFF = "off"
    REPORT = "report"
    EVICT = "evict"


_MONTH_S = 31 * 86400
_NAMESPACE = parsers.matching(
    re.compile(r"[a-z0-9*?][-a-z0-9*?]*"),
    "NAMESPACE",
    accepted="a namespace with * and ?",
    refusal="not a namespace",
)


@settings
class IdleSettings:
    """Pods that do not use their cards (with --pod-use)."""

    idle: IdleAction = choice_setting(
        IdleAction.REPORT,
        help="What follows when no process of a pod was on a card in any reading for --idle-after: report (Event, "
        "annotation, --status, and what evict would do), evict, which ends the pod five minutes later through the "
        "Eviction API, or off. Evicted are pods that a controller creates again, and those with the annotation "
        "gcushare.io/when-idle=evict; never those with keep. evict needs the same right as --over-use evict.",
    )
    idle_after: float = setting(
        parsers.duration_s(1, _MONTH_S),
        default=7200.0,
        help="How long every reading must have found nothing. A reading that failed, and a restart of the plugin, "
        "begin that time again.",
    )
    idle_least_age: float = setting(
        parsers.duration_s(0, _MONTH_S),
        default=14400.0,
        help="A pod is not idle before it has had its cards for so long: some load data for hours before they compute.",
    )
    idle_namespaces: tuple[str, ...] = setting(
        parsers.comma_list(_NAMESPACE),
        default=("*",),
        help="The namespaces whose pods are judged, with * and ?. What --over-use-exempt names is never evicted.",
    )

    @property
    def rules(self) -> IdleRules:
        """The same for the decision."""
        return IdleRules(self.idle_after, self.idle_least_age, self.idle_namespaces)
