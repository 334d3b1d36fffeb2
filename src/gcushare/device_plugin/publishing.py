"""The loop of what this node keeps as it should be in the cluster, also after others change it: Node and slices."""

from __future__ import annotations

import abc
import asyncio
import logging
import random

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

LEAST_INTERVAL_S = 0.5
"""Between two rounds of writes: a burst of pods costs a few rounds, also if another program keeps changing a text."""


class Publisher(abc.ABC):
    """Writes what differs from what should be in the cluster. ``run`` is its owner task.

    ``name`` and ``failure`` are the beginning of what it says of a failed write, in the log and in ``problem``.
    """

    def __init__(self, rng: random.Random, name: str, failure: str) -> None:
        self._name = name
        self._failure = failure
        self._wake = asyncio.Event()
        self._backoff = Backoff(BackoffPolicy(), rng)
        self._problem = ""
        self.rounds = 0
        """Rounds of writes that were done, for metrics."""

    @property
    def problem(self) -> str:
        """Why that is not there; "" if it is, or will be in a moment."""
        return self._problem

    async def run(self) -> None:
        """Write what differs, whenever something changed, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                has_written = await self._write_changes()
            except GcushareError as error:
                delay_s = self._backoff.next_delay_s(error)
                self._problem = f"{self._failure}: {error}"
                facts = fields(error=error, delay_s=round(delay_s, 1))
                logger.warning("%s not written; will retry %s", self._name, facts)
                await asyncio.sleep(delay_s)
                self._wake.set()
                continue
            self._problem = ""
            self._backoff.reset()
            if has_written:
                self.rounds += 1
                await asyncio.sleep(LEAST_INTERVAL_S)

    @abc.abstractmethod
    async def _write_changes(self) -> bool:
        """Write what differs; returns whether anything did."""
