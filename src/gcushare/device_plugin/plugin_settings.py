"""The device plugin's settings: every flag and variable, with its reason."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.placement import EXPECTED_FILL, POLICIES
from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, parse_memory_unit
from gcushare.node import node_settings
from gcushare.node.over_use.idle_settings import IdleSettings
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, group, optional_setting, setting, settings, switch
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.contracts import DEVICE_PLUGIN, PLUGIN_PORT, PODS_PER_THOUSAND
from gcushare.wire.kubelet.device_ids import KUBELET_MESSAGE_LIMIT_BYTES, MAX_MESSAGE_LIMIT_BYTES


class GrantMode(enum.Enum):
    """What a node's cards are granted as: memory units, whole cards, or both from one ledger."""

    MEMORY = SERVES_MEMORY
    WHOLE = SERVES_WHOLE
    BOTH = "both"

    @property
    def parts(self) -> tuple[str, ...]:
        """The modes as in the inventory."""
        return BOTH_MODES if self is GrantMode.BOTH else (self.value,)


class Bursts(enum.Enum):
    """Whether a pod may use more than its grant, up to its annotation gcushare.io/memory-limit.

    ``AUTO``: unless MPS limits memory and nothing evicts pods. Its author could then raise a limit that the admin set,
    and nothing would take the memory back.
    """

    AUTO = "auto"
    ALLOW = "allow"
    IGNORE = "ignore"


class CardCount(enum.Enum):
    """The count on the Node: one per card, or a thousand per card, which a node's pods can never use up."""

    AUTO = "auto"
    EXACT = "exact"
    THOUSANDS = "thousands"

    def pods_per_count(self, vendor: Vendor) -> int:
        """The count per card: how many pods that request a count of 1 fit on each card."""
        if self is CardCount.AUTO:
            return vendor.pods_per_count
        return PODS_PER_THOUSAND if self is CardCount.THOUSANDS else 1


COMPONENT = DEVICE_PLUGIN

CARD_POLICIES = tuple(name for name in POLICIES if name != EXPECTED_FILL)
"""Those that a fixed order of cards can express: what a request's loss is depends on the request."""


@settings
class CardSettings(node_settings.CardSourceSettings):
    """Cards."""

    mode: GrantMode = choice_setting(
        GrantMode.MEMORY,
        help="What pods may ask for: memory, whole cards "
        f"({' or '.join(vendor.whole_card_resource for vendor in VENDORS)}), or both; a card is then "
        "free, shared or whole, never two at a time. whole needs no scheduler extender.",
    )
    memory_unit: str | None = optional_setting(
        parsers.optional(parsers.one_of(*MEMORY_UNIT_NAMES, node_settings.AUTO_UNIT), "the vendor's own unit"),
        help="The amount of memory that 1 in a pod's request stands for. The default is "
        f"{', '.join(f'{vendor.default_unit} for {vendor.name}' for vendor in VENDORS)}, where 1 is a GB; auto takes "
        "the finest whose units fit into one message to the kubelet (--kubelet-message-limit), and for a kubelet from "
        "1.36 on are at most 10,000 or the fewest, of "
        f"{' and '.join(', '.join(each.auto_units) + ' for ' + each.name for each in VENDORS)}. "
        "Of a claim it is the step of amounts, and auto the finest.",
    )
    card_count: CardCount = choice_setting(
        CardCount.AUTO,
        help="What the Node's capacity shows as the number of cards "
        f"({' or '.join(vendor.count_resource for vendor in VENDORS)}). kube-scheduler and the kubelet count pods that "
        "ask for it against that number: with exact no more of them run on a node than it has cards; thousands shows "
        "1k for each card, so that such pods share cards like any other. auto: exact for enflame, whose pods do not "
        "ask for it, thousands for aliyun, whose pods do.",
    )
    bursts: Bursts = choice_setting(
        Bursts.AUTO,
        help="Whether pods may use more than their grant, up to their annotation gcushare.io/memory-limit, while no "
        "other pod needs the memory: allow; ignore gives the annotation no effect on this node; auto allows it unless "
        "MPS limits memory (--memory-limit mps) and nothing evicts pods that use too much (--over-use report).",
    )

    card_policy: str = setting(
        parsers.one_of(*CARD_POLICIES),
        default="binpack",
        help="On nodes that serve claims: the order of the node's cards in the ResourceSlice; the scheduler takes the "
        "first one that fits: " + "; ".join(f"{name}: {POLICIES[name].cards} first" for name in CARD_POLICIES) + ".",
    )

    @property
    def claims_unit(self) -> MemoryUnit:
        """The step of a claim's memory: slices have no limit of units as the kubelet's messages have."""
        if self.memory_unit == node_settings.AUTO_UNIT:
            return max(map(parse_memory_unit, self.vendor.auto_units), key=lambda unit: unit.per_gib)
        return parse_memory_unit(self.memory_unit or self.vendor.default_unit)


@settings
class KubeletSettings(node_settings.NodeSettings):
    """Kubelet."""

    kubelet_message_limit: int = setting(
        parsers.size_bytes(KUBELET_MESSAGE_LIMIT_BYTES, MAX_MESSAGE_LIMIT_BYTES),
        default=KUBELET_MESSAGE_LIMIT_BYTES,
        help="The largest message that this node's kubelet receives. It is a constant of the kubelet's build: name "
        "another one only for a kubelet that was built with it, since what is larger ends the stream and turns the "
        "capacity to 0. A unit costs 16 bytes, 17 beyond the first 17,672 to 185,556 units of a card. Kubelet 1.36 "
        "searches the health of all units of a node when it starts: above some 10,000 units turn its feature gates "
        "ResourceHealthStatus and ResourceHealthStatusMessage off.",
    )
    wait_for_pod: float = 1.0
    """How many seconds a call of the kubelet waits for the pod that it is about to appear in the plugin's watch."""
    longest_wait_for_containers: float = node_settings.DEFAULT_LONGEST_WAIT_S
    """Seconds at most that a card stays closed to the other use (shared or whole) after a pod on it was deleted by
    force: its containers may run on. The pod's terminationGracePeriodSeconds counts up to this, plus ten seconds."""

    @property
    def device_plugin_dir(self) -> Path:
        """Where the kubelet's registration socket and its checkpoint are, and where the plugin's socket goes."""
        return self.kubelet_dir / "device-plugins"

    @property
    def checkpoint(self) -> Path:
        """Where the kubelet keeps which pod has which devices."""
        return self.device_plugin_dir / "kubelet_internal_checkpoint"

    @property
    def pod_resources_socket(self) -> Path:
        """The kubelet's podresources socket."""
        return self.kubelet_dir / "pod-resources" / "kubelet.sock"

    @property
    def plugins_registry(self) -> Path:
        """Where the kubelet looks for drivers of claims."""
        return self.kubelet_dir / "plugins_registry"

    def driver_dir(self, driver: str) -> Path:
        """The directory of a driver of claims: its socket and its checkpoint."""
        return self.kubelet_dir / "plugins" / driver


@settings
class ActionSettings:
    """Instead of running."""

    status: bool = switch(
        help="Ask the plugin that runs here (--listen-port) for its state, print it and exit: 0 when all is well, 1 "
        "when it names a problem, 75 when nothing answers. For example by kubectl exec; /status has it as JSON.",
    )
    remove_from_node: bool = switch(
        typed=True,
        help="Take back what the plugin wrote: the card count and the inventory on the Node, the CDI specification, a "
        "socket left behind; then exit. Refused while the plugin runs here. Repeatable.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """One of them at a time."""
        if self.status and self.remove_from_node:
            yield "flags --status and --remove-from-node exclude each other: give one of them"


@settings
class PluginSettings:
    """Device plugin."""

    actions: ActionSettings = group(ActionSettings)
    cards: CardSettings = group(CardSettings)
    over_use: OverUseSettings = group(OverUseSettings)
    idle: IdleSettings = group(IdleSettings)
    limits: node_settings.LimitSettings = group(node_settings.LimitSettings)
    health: node_settings.HealthSettings = group(node_settings.HealthSettings)
    kubelet: KubeletSettings = group(KubeletSettings)
    kube: KubeSettings = group(KubeSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=PLUGIN_PORT)
    log: LogSettings = group(LogSettings)

    @property
    def allows_bursts(self) -> bool:
        """Whether pods may use more than their grant."""
        evicts = self.over_use.over_use is Action.EVICT and not self.over_use.dry_run
        is_safe = evicts or not self.limits.uses_mps
        return self.cards.bursts is Bursts.ALLOW or (self.cards.bursts is Bursts.AUTO and is_safe)

    def find_conflicts(self) -> Iterator[str]:
        """What the settings of cards, over-use, idle pods and limits ask of each other."""
        return node_settings.use_conflicts(self.cards, self.over_use, self.idle, self.limits)
