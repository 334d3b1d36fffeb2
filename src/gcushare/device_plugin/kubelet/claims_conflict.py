"""Keeps the plugin from offering cards that claims hold: a node serves claims or resources, never both."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

from gcushare.core.errors import GcushareError, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.node.pod_resources import list_claiming_pods
from gcushare.wire.dra.claims import PodWithClaims, ResourceClaim
from gcushare.wire.pods import is_finished

logger = logging.getLogger(__name__)

QUIET_S = 60.0
"""How long no claim must have been seen: a kubelet that starts lists no pod for some seconds."""
UNKNOWN_S = 5.0
_MAX_NAMES = 5


async def _nothing() -> Sequence[str]:
    return ()


class AllocatedClaims:
    """Finds the pods of this node whose claims the scheduler gave cards of ``driver``, prepared or not.

    The kubelet lists a claim from its preparation on. Before, only the claim itself says it: it is read once for each
    pod, by name, which needs the right to get claims and none to list them.
    """

    def __init__(self, get_claim: Callable[[str, str], Awaitable[ResourceClaim]], driver: str, node: str) -> None:
        self._get_claim = get_claim
        self._driver = driver
        self._node = node
        self._names: dict[str, tuple[str, str, frozenset[str]]] = {}
        """The namespace, name and claims of each pod with claims, by uid."""
        self._holds: dict[tuple[str, str], bool] = {}
        """Whether a claim holds cards of this node, by pod uid and name: it cannot change while the pod is bound."""

    def on_pod_update(self, pod: PodWithClaims) -> None:
        """Use a pod's newest state."""
        meta = pod.metadata
        if pod.claim_names and not is_finished(pod):
            self._names[meta.uid] = (meta.namespace, meta.name, pod.claim_names)
        else:
            self.on_pod_delete(meta.uid)

    def on_pod_delete(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._names.pop(uid, None)
        self._holds = {key: holds for key, holds in self._holds.items() if key[0] != uid}

    def on_pod_resync(self, uids: Collection[str]) -> None:
        """Forget every pod but these."""
        for uid in [uid for uid in self._names if uid not in uids]:
            self.on_pod_delete(uid)

    async def find_pods(self) -> list[str]:
        """The pods, ``namespace/name``; without those whose claims cannot be read, which the log names."""
        found = []
        for uid, (namespace, name, claims) in list(self._names.items()):
            for claim in sorted(claims):
                if (uid, claim) not in self._holds:
                    try:
                        results = (await self._get_claim(namespace, claim)).results_of(self._driver)
                    except GcushareError as error:
                        logger.warning("a claim cannot be read %s", fields(claim=f"{namespace}/{claim}", reason=error))
                        continue
                    self._holds[uid, claim] = any(each.pool == self._node for each in results)
                if self._holds[uid, claim]:
                    found.append(f"{namespace}/{name}")
        return found


class ClaimsConflict:
    """Finds pods whose claims hold cards of ``driver`` on this node; ``then`` is asked if there are none.

    The kubelet names the pods whose claims are prepared, ``allocated`` those whose claims are not yet.

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
        allocated: Callable[[], Awaitable[Sequence[str]]] = _nothing,
        then: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._socket = socket
        self._driver = driver
        self._resource = resource
        self._clock = clock
        self._served_claims = served_claims
        self._allocated = allocated
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
            prepared = await list_claiming_pods(self._socket, self._driver) if self._socket.exists() else ()
        except (RetryableError, RemoteContractError) as error:
            prepared = ()
            logger.warning("prepared claims on this node are not known %s", fields(reason=error))
        if pods := sorted({*prepared, *await self._allocated()}):
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
