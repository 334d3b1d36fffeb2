"""The commands ``gcushare cordon-card`` and ``uncordon-card``: settings, then the work, imported once it begins."""

from __future__ import annotations

import enum

from gcushare._version import __version__
from gcushare.cli.cordon.annotation import CordonRequest
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.groups import KubeSettings
from gcushare.runtime.start import load
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS_BY_NAME


class VendorName(enum.Enum):
    """Whose card is meant."""

    ENFLAME = ENFLAME.name
    ALIYUN = ALIYUN.name


@settings
class CordonSettings:
    """Card."""

    node: str = setting(
        parsers.text("NODE", accepted="a node's name"), argument=True, help="The node, as `kubectl get nodes` names it."
    )
    card: str = setting(
        parsers.text("INDEX|UUID", accepted="a card's index or uuid"),
        argument=True,
        help="The card, as `kubectl inspect` shows it. An index also means a card that replaces the present one, a "
        "uuid only this piece of hardware.",
    )
    vendor: VendorName | None = setting(
        parsers.optional(parsers.choice(VendorName), "whichever has the card"),
        default=None,
        help="Whose card, on a node that has cards of both.",
    )
    kube: KubeSettings = group(KubeSettings)


_NOTES = (
    "The state is an annotation of the Node, gcushare.io/enflame-cordoned-cards or gcushare.io/aliyun-cordoned-cards, "
    "with indexes or uuids separated by commas; it may be written by hand as well."
)

CORDON = Program(
    name="gcushare cordon-card",
    summary="Let no new pod onto one card of a node. Pods that run there stay and keep their units.",
    version=__version__,
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
    version=__version__,
    settings=CordonSettings,
    examples=(("gcushare uncordon-card node-1 3", "card 3 of node-1"),),
    notes=_NOTES,
)


def cordon_main(surroundings: Surroundings | None = None) -> int:
    """Run ``gcushare cordon-card`` and return its exit code."""
    return _run(CORDON, surroundings or Surroundings(), is_cordon=True)


def uncordon_main(surroundings: Surroundings | None = None) -> int:
    """Run ``gcushare uncordon-card`` and return its exit code."""
    return _run(UNCORDON, surroundings or Surroundings(), is_cordon=False)


def _run(program: Program[CordonSettings], around: Surroundings, *, is_cordon: bool) -> int:
    def run(found: CordonSettings) -> int:
        vendor = VENDORS_BY_NAME[found.vendor.value] if found.vendor is not None else None
        request = CordonRequest(found.node, found.card.strip(), is_cordon, vendor)
        return load("gcushare.cli.cordon.write", "run")(request, found.kube, around)

    return run_program(program, run, surroundings=around)
