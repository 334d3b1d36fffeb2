"""The programs' way to the simulated API server: requests and streams through the weather of now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec

from gcushare.kube.connection.transport import TRANSPORT_FAILURES, Request, error_of_transport
from gcushare.kube.errors import HttpFailure, NotConnectedError, error_of_answer
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.storage import Change
from simulation.apiserver import ApiServer, Target
from simulation.loop import SimulatedLoop
from simulation.process import Process
from simulation.watches import Watch
from simulation.weather import Fate, Weather

REQUEST_S = 15.0
Answer: TypeAlias = "asyncio.Future[tuple[int, bytes]]"
_LOST = (Fate.LOST_BEFORE, Fate.LOST_AFTER)
_EARLY = {Fate.UNAVAILABLE: (503, "ServiceUnavailable"), Fate.TOO_MANY: (429, "TooManyRequests")}


class Gateway:
    """The API server as all processes reach it: whether it runs, and every open stream."""

    def __init__(self, loop: SimulatedLoop, server: ApiServer) -> None:
        self.loop = loop
        self.server = server
        self.is_up = True
        self.watches: dict[Watch, Process] = {}

    def publish(self, change: Change) -> None:
        """Pass a change on to every stream of its kind."""
        plural = change.collection
        for watch in self.watches:
            if watch.plural == plural:
                watch.take(change)

    def drop(self, process: Process) -> None:
        """A process was killed: the system closes its connections."""
        for watch in [watch for watch, owner in self.watches.items() if owner is process]:
            watch.close()
            del self.watches[watch]

    def stop(self) -> None:
        """The API server restarts: nothing is answered and every stream is cut."""
        self.is_up = False
        for watch in list(self.watches):
            watch.end(ConnectionResetError("the API server went away"))

    def start(self) -> None:
        """It answers again."""
        self.is_up = True


class SimulatedTransport:
    """One process's requests; an ``ApiTransport``."""

    def __init__(self, gateway: Gateway, process: Process, weather: Weather) -> None:
        self._gateway = gateway
        self._process = process
        self._weather = weather

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def send(self, request: Request) -> tuple[bytes, str]:
        """Send a request and return the body of its success; the world has no dates."""
        code, body = await self._exchange(request)
        if code != 200:
            raise error_of_answer(request.attempt, HttpFailure(code, body))
        return body, ""

    async def post(self, request: Request) -> None:
        """Send a POST."""
        await self.send(request)

    async def _exchange(self, request: Request) -> tuple[int, bytes]:
        loop, weather = self._gateway.loop, self._weather
        fate, answer = self._begin(loop, request)
        there_s, timeout_s = weather.way_s(), request.timeout_s or REQUEST_S
        # A list that takes long is as old as its beginning when it comes.
        back_s = weather.way_s() + (weather.page_s() if request.verb == "list" else 0.0)
        back_s += weather.answer_s() if request.method != "GET" else 0.0
        if fate is Fate.REFUSED or not self._gateway.is_up:
            loop.call_world(there_s, _fail, answer, NotConnectedError("connection refused"))
        elif fate is Fate.RESET_BEFORE:
            loop.call_world(there_s, _fail, answer, ConnectionResetError("reset"))
        elif fate is not Fate.LOST_BEFORE:
            loop.call_world(there_s, self._arrive, request, fate, answer, back_s)
        if fate in _LOST or there_s + back_s >= timeout_s:
            self._give_up_after(timeout_s, answer)
        try:
            return await answer
        except TRANSPORT_FAILURES as error:
            raise error_of_transport(request.attempt, error) from error

    def _begin(self, loop: SimulatedLoop, request: Request) -> tuple[Fate, Answer]:
        """Draw what becomes of a request, and make where its answer goes."""
        self._process.require_alive()
        return self._weather.fate(is_binding="/binding" in request.path), asyncio.Future(loop=loop)

    def _give_up_after(self, timeout_s: float, answer: Answer) -> None:
        """The client's own timeout; no timer is made for an answer that is known to come before it."""
        timeout = TimeoutError(f"no answer within {timeout_s} s")
        self._gateway.loop.call_world(timeout_s / self._process.rate, _fail, answer, timeout)

    def _arrive(self, request: Request, fate: Fate, answer: Answer, back_s: float) -> None:
        """At the API server; what its sender gave up was dropped with the connection."""
        if answer.done():
            return
        if not self._gateway.is_up:
            _fail(answer, ConnectionResetError("reset"))
            return
        if fate in _EARLY:
            code, reason = _EARLY[fate]
            reply = (code, _body(ApiFailure(code, reason, "")))
        else:
            try:
                reply = (200, self._gateway.server.answer(request, self._process.name))
            except ApiFailure as failure:
                reply = (failure.code, _body(failure))
        if fate is Fate.LOST_AFTER:
            return
        if fate is Fate.FAILED_AFTER:
            reply = (500, _body(ApiFailure(500, "InternalError", "etcdserver: request timed out")))
        if fate is Fate.RESET_AFTER:
            self._gateway.loop.call_world(back_s, _fail, answer, ConnectionResetError("reset"))
        else:
            self._gateway.loop.settle_in_world(back_s, answer, reply)

    @asynccontextmanager
    async def stream(self, request: Request, stall_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch."""
        code, body = await self._opening(request)
        if code != 200:
            raise error_of_answer(request.attempt, HttpFailure(code, body))
        gateway, target = self._gateway, Target(request.path)
        watch = Watch(
            gateway.loop,
            gateway.server.store,
            target.plural,
            target.matches,
            self._weather,
            float(target.query["timeoutSeconds"]),
        )
        try:
            watch.replay(int(target.query["resourceVersion"]))
        except ApiFailure as failure:
            watch.close()
            raise error_of_answer(request.attempt, HttpFailure(failure.code, _body(failure))) from failure
        gateway.watches[watch] = self._process
        try:
            yield self._chunks(watch, request, stall_s)
        finally:
            watch.close()
            gateway.watches.pop(watch, None)

    async def _opening(self, request: Request) -> tuple[int, bytes]:
        """Ask for a stream: the weather's fates, without an answer to read."""
        loop = self._gateway.loop
        fate, answer = self._begin(loop, request)
        if fate in _EARLY:
            code, reason = _EARLY[fate]
            loop.settle_in_world(self._weather.way_s(), answer, (code, _body(ApiFailure(code, reason, ""))))
        elif fate is not Fate.FINE or not self._gateway.is_up:
            loop.call_world(self._weather.way_s(), _fail, answer, NotConnectedError(fate.value))
        else:
            loop.settle_in_world(self._weather.way_s(), answer, (200, b""))
        self._give_up_after(REQUEST_S, answer)
        try:
            return await answer
        except TRANSPORT_FAILURES as error:
            raise error_of_transport(request.attempt, error) from error

    async def _chunks(self, watch: Watch, request: Request, stall_s: float) -> AsyncGenerator[bytes, None]:
        while True:
            try:
                chunk = await watch.read(stall_s)
            except TRANSPORT_FAILURES as error:
                raise error_of_transport(request.attempt, error) from error
            if not chunk:
                return
            yield chunk


def _body(failure: ApiFailure) -> bytes:
    return msgspec.json.encode(failure.status())


def _fail(answer: Answer, error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # Seen: the process that asked may have been killed meanwhile.
