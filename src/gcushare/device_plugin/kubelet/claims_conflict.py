"""Keeps the plugin from offering cards that claims hold: a node serves claims or resources, never both."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.node.pod_resources import list_claiming_pods

logger = logging.getLogger(__name__)

QUIET_S = 60.0
"""How long no claim must have been seen: a kubelet that starts lists no pod for some seconds."""
UNKNOWN_S = 5.0
_MAX_NAMES = 5


class ClaimsConflict:
    """Asks the kubelet for pods whose claims ``driver`` prepared; ``then`` is asked if there are none.

    ``served_claims`` answers whether the node served claims before this plugin started; None if that is not known yet.
    If it did, nothing is registered for ``QUIET_S`` in any case: a kubelet that starts at the same time would list none
    of their pods. The plugin waits ``UNKNOWN_S`` for that answer: without the API server it serves all the same.
    """

    def __init__(
        self,
        socket: Path,
        driver: str,
        resource: str,
        *,
        clock: Callable[[], float],
        served_claims: Callable[[], bool | None] = lambda: False,
        then: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._socket = socket
        self._driver = driver
        self._resource = resource
        self._clock = clock
        self._served_claims = served_claims
        self._then = then
        self._seen_at: float | None = None
        self._asked_at: float | None = None
        self._holders = "none is listed, but the node served claims until now"

    async def find(self) -> str:
        """Say which pods hold claims, and what to do; "" if none does.

        A kubelet without podresources has no claims: it is older than they are. One that does not answer keeps the
        plugin waiting only if claims were seen here before.
        """
        try:
            pods = await list_claiming_pods(self._socket, self._driver) if self._socket.exists() else ()
        except (RetryableError, RemoteContractError) as error:
            logger.warning("claims on this node are not known %s", fields(reason=error))
        else:
            if pods:
                self._seen_at, self._holders = self._clock(), some_names(pods, _MAX_NAMES)
        if self._asked_at is None:
            self._asked_at = self._clock()
        served = self._served_claims()
        if served is None and self._clock() - self._asked_at < UNKNOWN_S:
            return "the Node was not read yet: whether it served claims until now is not known"
        if served and self._seen_at is None:
            self._seen_at = self._clock()
        if self._seen_at is not None and self._clock() - self._seen_at < QUIET_S:
            return (
                f"pods hold claims of {self._driver} on this node's cards ({self._holders}): {self._resource} is "
                f"offered {QUIET_S:g} s after they have ended; or label the node gcushare.io/serve=claims"
            )
        return await self._then() if self._then is not None else ""
