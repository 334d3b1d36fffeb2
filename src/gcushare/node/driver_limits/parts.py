"""Build what limits memory on a node, by the settings."""

from __future__ import annotations

from collections.abc import Callable

from gcushare.cards.ports import LimitSource
from gcushare.cards.selection import open_source
from gcushare.core.cards import Inventory
from gcushare.node.api_server import Announcer
from gcushare.node.cards import source_options
from gcushare.node.driver_limits.keeper import DriverLimits
from gcushare.node.driver_limits.limiter import DriverLimiter
from gcushare.node.memory_limiter import MemoryLimiter
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import MpsFolders
from gcushare.node.node_settings import CardSourceSettings, HealthSettings, LimitSettings, MemoryLimit
from gcushare.node.pod_use import CardPolls
from gcushare.node.pods import NodePods


def make_limiter(settings: LimitSettings) -> MemoryLimiter | None:
    """Return the limiter that the settings ask for; None if memory is not limited."""
    if settings.memory_limit is MemoryLimit.MPS:
        return MpsLimiter(MpsFolders(settings.mps_root), settings.limit_fallback)
    return DriverLimiter(settings.limit_fallback) if settings.memory_limit is MemoryLimit.DRIVER else None


def make_driver_limits(
    limiter: MemoryLimiter | None,
    settings: LimitSettings,
    cards: CardSourceSettings,
    health: HealthSettings,
    pods: NodePods,
    polls: CardPolls,
    announcer: Announcer,
    on_change: Callable[[], None],
    *,
    inventory: Callable[[], Inventory | None],
    source: LimitSource | None,
) -> DriverLimits | None:
    """Build the keeper of the driver's limits; None if the driver limits nothing. Nothing is loaded before it runs.

    The library gets a second process: the first one waits for events most of the time, and a kubelet waits here.
    """
    if not isinstance(limiter, DriverLimiter):
        return None
    source = source or open_source(source_options(cards, health))
    return DriverLimits(source, settings.cgroup_dir, limiter, pods, polls, announcer, on_change, inventory=inventory)
