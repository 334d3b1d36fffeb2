"""The settings of the extender for nodes that serve claims."""

from __future__ import annotations

from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, parse_memory_unit
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting, settings, switch
from gcushare.vendors import Vendor

_OWN_UNIT = "default"


@settings
class ClaimsSettings:
    """Claims."""

    claims: bool = switch(
        help="Make the ResourceClaimTemplates that pods name, and keep the order in which nodes that serve claims are "
        "filled. The chart sets it with claims.enabled, together with the rights.",
    )
    memory_unit: str = setting(
        parsers.one_of(_OWN_UNIT, *MEMORY_UNIT_NAMES, metavar="UNIT"),
        default=_OWN_UNIT,
        help="What 1 of the memory resource stands for in every claim, and in the request of a pod without the "
        "annotation gcushare.io/memory-unit: nodes that count otherwise are not for it. default is the vendor's own "
        "unit; for pods only where nodes differ, and if no node has it, that of most nodes. It must be the unit of the "
        "nodes that serve claims. Templates of another unit are replaced.",
    )
    claims_node_order: bool = setting(
        parsers.boolean(),
        default=True,
        help="Keep the label gcushare.io/claims-order on nodes that serve claims, by which kube-scheduler fills one "
        "node after the other.",
    )

    @property
    def given_unit(self) -> MemoryUnit | None:
        """The unit that the admin has chosen; None: the vendor's own."""
        return None if self.memory_unit == _OWN_UNIT else parse_memory_unit(self.memory_unit)

    def unit_of(self, vendor: Vendor) -> MemoryUnit:
        """The unit of a vendor's memory resource."""
        return self.given_unit or parse_memory_unit(vendor.default_unit)
