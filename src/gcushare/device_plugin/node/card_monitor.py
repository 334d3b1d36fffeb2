"""The monitor of this node's cards, as the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable

from gcushare.cards.health import HealthPolicy
from gcushare.cards.libraries import LIBRARY_OF_VENDOR
from gcushare.cards.monitor import CardMonitor, MonitorSettings
from gcushare.cards.roster import CardsSnapshot
from gcushare.cards.selection import SourceOptions, open_source
from gcushare.cards.worker.client import IsolationSettings
from gcushare.device_plugin.settings import PluginSettings


def open_monitor(settings: PluginSettings, on_change: Callable[[CardsSnapshot], None]) -> CardMonitor:
    """Create the monitor; nothing is loaded before its first look.

    Raises:
        ConfigError: ``--cards`` names no source, or the simulated file is wrong.
    """
    return CardMonitor(open_source(source_options(settings)), on_change, monitor_settings(settings))


def source_options(settings: PluginSettings) -> SourceOptions:
    """Where the cards come from, for the door to hardware."""
    cards = settings.cards
    return SourceOptions(
        cards=cards.cards,
        efml_library=str(cards.efml_library or ""),
        nvml_library=str(cards.nvml_library or ""),
        prefer=LIBRARY_OF_VENDOR.get(cards.vendor.name, ""),
        extra_application_xids=settings.health.application_xids,
        isolation=IsolationSettings(call_timeout_s=settings.health.card_call_timeout),
    )


def monitor_settings(settings: PluginSettings) -> MonitorSettings:
    """How the cards are watched."""
    health = settings.health
    policy = HealthPolicy(
        bad_readings=health.unhealthy_after,
        recover_after_s=health.recover_after,
        event_holds_s=health.event_holds,
    )
    return MonitorSettings(poll_interval_s=settings.cards.poll_interval, policy=policy)
