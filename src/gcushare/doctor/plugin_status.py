"""A device plugin's /status, as far as the checks use it; fields that an older plugin does not tell have defaults."""

from __future__ import annotations

import msgspec

from gcushare.core.errors import RemoteContractError


class StatusCard(msgspec.Struct, frozen=True, rename="camel"):
    """One card, as the plugin offers it."""

    index: int
    units: int = 0
    held_units: int = 0
    memory_bytes: int = 0
    health: str = "Healthy"


class StatusPod(msgspec.Struct, frozen=True, rename="camel"):
    """One pod: the cards of its record, and the units that the kubelet's own record gives it, by card."""

    pod: str
    uid: str
    units: int = 0
    recorded_cards: tuple[int, ...] | None = None
    assigned: bool = False
    held_by_card: dict[str, int] = msgspec.field(default_factory=dict)
    unconfirmed: tuple[str, ...] = ()

    @property
    def held_cards(self) -> tuple[int, ...]:
        """The cards that the kubelet's ids name, in order."""
        return tuple(sorted(int(index) for index in self.held_by_card if index.isdecimal()))


class PluginStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The document."""

    version: str = ""
    node: str = ""
    problems: dict[str, str] = msgspec.field(default_factory=dict)
    unit: str | None = None
    cards: tuple[StatusCard, ...] = ()
    pods: tuple[StatusPod, ...] = ()
    foreign_containers: int = 0


_decoder = msgspec.json.Decoder(PluginStatus)


def parse_plugin_status(body: bytes) -> PluginStatus:
    """Read the document.

    Raises:
        RemoteContractError: it is none; another system's plugin may answer there.
    """
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as failure:
        raise RemoteContractError(f"its /status is no document of gcushare-device-plugin: {failure}") from failure
