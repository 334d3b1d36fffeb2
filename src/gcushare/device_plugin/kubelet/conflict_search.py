"""Why a resource must not be registered here: another plugin serves it, or another system hands out the same cards."""

from __future__ import annotations

from functools import partial

from gcushare.core.cards import SERVES_WHOLE
from gcushare.device_plugin.kubelet.checkpoint import CHECKPOINT_NAME
from gcushare.device_plugin.kubelet.conflicting_plugin import ConflictingPluginWatch
from gcushare.device_plugin.node.parts import Parts
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.node.choices import OtherSystems
from gcushare.node.other_systems import SliceDrivers, describe_others


class ConflictSearch:
    """Searches before each registration of one part of the node's offer: memory or whole cards.

    Another plugin of the same resource is always refused: the kubelet serves one. Systems that hand out the same cards
    under other names are refused unless ``--other-systems allow``.
    """

    def __init__(self, part: str, settings: PluginSettings, parts: Parts, drivers: SliceDrivers) -> None:
        vendor, served = settings.cards.vendor, settings.cards.mode.parts
        checkpoint = settings.kubelet.device_plugin_dir / CHECKPOINT_NAME
        self._is_refusing = settings.cards.other_systems is OtherSystems.REFUSE
        self._publisher = parts.publisher
        self._drivers = drivers
        self._announce = partial(parts.announcer.about_node, warning=True)
        self._announced = ""
        report = partial(self._announce, "SecondPluginServes")
        watch = partial(ConflictingPluginWatch, checkpoint=checkpoint, node=parts.publisher, report=report)
        resource = vendor.whole_card_resource if part == SERVES_WHOLE else vendor.memory_resource
        self._watches = [watch(resource, part)]
        if self._is_refusing and SERVES_WHOLE not in served:
            self._watches.append(watch(vendor.whole_card_resource, SERVES_WHOLE, is_served=False))

    async def find(self) -> str:
        """Say what is in the way, and what to do; "" if nothing is."""
        found = [text for watch in self._watches if (text := await watch.find())]
        if self._is_refusing:
            others = describe_others(self._publisher.find_neighbours(await self._drivers.read()))
            if others and others != self._announced:
                self._announce("OtherSystemServes", others)
            self._announced = others
            found += [others] if others else []
        return "; ".join(found)
