"""Which connection makes room for a new one, so that the scheduler keeps its own, which is idle between calls."""

from __future__ import annotations

import asyncio

import pytest

from gcushare.runtime.http.answers import Rejection
from gcushare.runtime.http.connections import SLOW_BODY_S, ConnectionTable
from tests.manual_clock import ManualClock

SCHEDULER = "10.0.0.1"


class Wire(asyncio.Transport):
    """A client's connection."""

    def __init__(self, address: str = "") -> None:
        super().__init__({"peername": (address, 1)} if address else None)
        self.is_cut = False

    def abort(self) -> None:
        self.is_cut = True


class Server:
    """A table of 16 connections, and the clients that open them."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.table = ConnectionTable(16, self.clock.monotonic)
        self.given_up: list[Wire] = []

    def connect(self, address: str = "", *, body: str = "") -> Wire:
        """Open a connection; ``body`` "arrives" or is "whole"."""
        wire = Wire(address)
        self.table.admit(wire)
        if body:
            self.table.mark_busy(wire, lambda: self._give_up(wire))
        if body == "whole":
            self.table.end_body(wire)
        return wire

    def _give_up(self, wire: Wire) -> None:
        self.given_up.append(wire)
        self.table.mark_idle(wire)

    def flood(self, *addresses: str, body: str = "", times: int = 200, every_s: float = 0.0) -> list[Wire]:
        """Connect again and again; those that are cut are gone."""
        wires = []
        for number in range(times):
            wires.append(self.connect(addresses[number % len(addresses)], body=body))
            self.clock.advance(every_s)
            for wire in [each for each in wires if each.is_cut]:
                self.table.forget(wire)
        return wires


@pytest.mark.parametrize("every_s", [0.0, SLOW_BODY_S / 4])
@pytest.mark.parametrize("body", ["", "arrives"])
def test_no_client_of_many_connections_cuts_another_one_that_is_idle(body: str, every_s: float) -> None:
    server = Server()
    mine = [server.connect(SCHEDULER) for _ in range(3)]
    server.flood("10.0.0.2", body=body, every_s=every_s)
    assert not any(wire.is_cut for wire in mine)
    assert len(server.table) == 16


def test_many_clients_that_never_finish_cut_each_other_and_no_idle_one() -> None:
    server = Server()
    mine = [server.connect(SCHEDULER) for _ in range(3)]
    wires = server.flood(*(f"10.0.1.{number}" for number in range(100)), body="arrives", every_s=SLOW_BODY_S / 8)
    assert not any(wire.is_cut for wire in mine)
    assert server.given_up == [wire for wire in wires if wire.is_cut]


def test_of_one_address_the_oldest_that_sends_slowly_goes_before_those_that_are_idle() -> None:
    server = Server()
    idle, first = server.connect(SCHEDULER), server.connect(SCHEDULER, body="arrives")
    server.flood(SCHEDULER, body="arrives", times=15)
    assert (idle.is_cut, first.is_cut, server.given_up[0]) == (False, True, first)


def test_a_request_that_is_answered_is_not_cut_and_without_any_other_the_newcomer_is_refused() -> None:
    server = Server()
    held = [server.connect(SCHEDULER, body="whole") for _ in range(15)]
    idle = server.connect("10.0.0.2")
    server.connect("10.0.0.3", body="whole")
    assert idle.is_cut
    with pytest.raises(Rejection, match="too many connections"):
        server.connect("10.0.0.4")
    assert not any(wire.is_cut for wire in held)


def test_clients_whose_address_is_not_known_count_as_one() -> None:
    server = Server()
    mine = server.connect(SCHEDULER)
    server.flood("")
    assert not mine.is_cut
