"""The dashboard's settings."""

from __future__ import annotations

import enum

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, setting, settings
from gcushare.wire.contracts import PAGE_PORT


class Access(enum.Enum):
    """Who may see the page."""

    OFF = "off"
    OPEN = "open"
    TOKEN = "token"


@settings
class DashboardSettings:
    """The page."""

    dashboard: Access = choice_setting(
        Access.TOKEN,
        help="The page at /dashboard/: token asks each reader for a token of the cluster whose owner may get the "
        "non-resource URL /gcushare/dashboard (needs the rights of system:auth-delegator); open shows it to everyone "
        "who reaches the port, as inspect is; off serves no page and keeps nothing for it.",
    )
    page_port: int = setting(
        parsers.integer(0, 65535, "PORT"),
        default=PAGE_PORT,
        help="Port of the page, metrics and health, where another program has it; its address and certificate are "
        "those of the first port. 0 takes a free one and logs which.",
    )
    dashboard_readers: int = 64
    """Readers that follow changes at once; each holds one connection and no queue."""
