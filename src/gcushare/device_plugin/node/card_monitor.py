"""The plugin's settings in the words of the doors that it uses."""

from __future__ import annotations

from gcushare.cards.health import HealthPolicy
from gcushare.cards.monitor import MonitorSettings
from gcushare.cards.selection import SourceOptions
from gcushare.cards.worker.client import IsolationSettings
from gcushare.device_plugin.settings import PluginSettings


def source_options(settings: PluginSettings) -> SourceOptions:
    """Where the cards come from, for the door to hardware."""
    cards = settings.cards
    return SourceOptions(
        cards=cards.cards,
        efml_library=str(cards.efml_library or ""),
        nvml_library=str(cards.nvml_library or ""),
        prefer="efml" if cards.vendor.value == "enflame" else "nvml",
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
