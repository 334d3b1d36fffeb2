"""The settings of ``gcushare cordon-card`` and ``uncordon-card``."""

from __future__ import annotations

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, optional_setting, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.vendors import VENDORS, VENDORS_BY_NAME


@settings
class CordonSettings:
    """Card."""

    node: str = setting(
        parsers.text("NODE", accepted="a node's name"), argument=True, help="The node, as `kubectl get nodes` names it."
    )
    card: str = setting(
        parsers.text("INDEX|UUID", accepted="a card's index or uuid"),
        argument=True,
        help="The card, as `kubectl inspect` shows it: 0 for GPU0. The Node then names its uuid, which stays with it.",
    )
    vendor: str | None = optional_setting(
        parsers.optional(parsers.one_of(*VENDORS_BY_NAME), "whichever has the card"),
        help="Whose card, on a node that has cards of several.",
    )
    kube: KubeSettings = group(KubeSettings)


_NOTES = (
    f"The state is an annotation of the Node, {' or '.join(vendor.cordon_annotation for vendor in VENDORS)}, "
    "with indexes or uuids separated by commas; it may be written by hand as well."
)

CORDON = Program(
    name="gcushare cordon-card",
    summary="Let no new pod onto one card of a node. Pods that run there stay and keep their units.",
    settings=CordonSettings,
    examples=(
        ("gcushare cordon-card node-1 3", "card 3 of node-1"),
        ("gcushare cordon-card node-1 GPU-8f4e3c2a-77f0-11ef-9a5b-0242ac120002", "the same by its uuid"),
    ),
    notes=_NOTES,
)
UNCORDON = Program(
    name="gcushare uncordon-card",
    summary="Let pods onto a card again that was cordoned.",
    settings=CordonSettings,
    examples=(("gcushare uncordon-card node-1 3", "card 3 of node-1"),),
    notes=_NOTES,
)
