"""Looks for prepared claims that no pod uses any more, and for pods that came to use a prepared claim.

The kubelet ends every use with a call. If its state or ours was lost, that call never comes: the claim is deleted, or
allocated to this node no more, no container has it, and its memory would stay taken. Such a claim is an orphan; after a
while it is released.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import KW_ONLY, dataclass

from gcushare.core.errors import DeviceError, GcushareError, NotFoundError, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.device_plugin.claims.claim_pods import ClaimPods
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims, is_in_pool
from gcushare.device_plugin.claims.service import ClaimsOfContainers
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import RESOURCE_CLAIMS
from gcushare.node.node_settings import DEFAULT_LONGEST_WAIT_S
from gcushare.wire.dra.checkpoint import users_of

logger = logging.getLogger(__name__)

CHECK_S = 10.0
UNSEEN_S = 60.0
"""How long no container must have had a claim before the API server is asked for it, and between two such questions: a
kubelet that starts lists no pod for some seconds, and it never lists ordinary init containers."""
_MAX_NAMES = 5


@dataclass(eq=False)
class ClaimChecks:
    """``run`` is its owner task. ``problem`` names the orphans; "" if there are none.

    ``claims_of_containers`` reads what the kubelet shows. ``running`` returns the uids of the pods that have processes
    on this machine, None if that is not known. An orphan is released ``release_s`` after it was found: containers of a
    pod that was deleted by force may run that long. ``announce`` gets a reason and a message then. ``clock`` is
    monotonic, in seconds.
    """

    release_s = DEFAULT_LONGEST_WAIT_S

    prepared: PreparedClaims
    pods: ClaimPods
    client: KubeClient
    _: KW_ONLY
    claims_of_containers: Callable[[], Awaitable[ClaimsOfContainers]]
    running: Callable[[], Awaitable[frozenset[str] | None]]
    announce: Callable[[str, str], None]
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._unseen_since: dict[str, float] = {}
        self._orphan_since: dict[str, float] = {}

    @property
    def problem(self) -> str:
        found = [self.prepared.claims[uid].key for uid in self._orphan_since if uid in self.prepared.claims]
        if not found:
            return ""
        return (
            f"claims {some_names(sorted(found), _MAX_NAMES)} are prepared, but they are this node's no more, and no "
            f"container has them: their memory is released {self.release_s:g} s after that was seen, unless processes "
            "of their pods run"
        )

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_S)

    async def check(self) -> None:
        """Check once."""
        await self._find_unseen()
        now_s = self.clock()
        due = {uid for uid, since_s in self._unseen_since.items() if now_s - since_s >= UNSEEN_S}
        await self.ask_users(due)
        await self._release()

    async def ask_users(self, others: Collection[str] = ()) -> None:
        """Ask for the claims that pods name and may have come to use, and for ``others``."""
        for uid in sorted(self.pods.asking().keys() | others):
            await self._ask(uid)

    async def _find_unseen(self) -> None:
        """Note which claims no container has, by name, and forget those that one has again."""
        before = self.prepared.claims
        try:
            shown = await self.claims_of_containers()
        except (RetryableError, RemoteContractError) as error:
            logger.warning("which containers have which claims is not known %s", fields(reason=error))
            return
        seen = {key for keys in shown.values() for key in keys}
        # The kubelet never has two claims of one name.
        asked = self.prepared.asked
        unseen = {uid for uid, each in before.items() if each.key not in seen or asked.get(each.key, uid) != uid}
        self._unseen_since = {uid: self._unseen_since.get(uid, self.clock()) for uid in unseen}
        self._orphan_since = {uid: since_s for uid, since_s in self._orphan_since.items() if uid in unseen}

    async def _ask(self, uid: str) -> None:
        """Ask the API server for a claim: whether it is there, and who may use it."""
        claim = self.prepared.claims.get(uid)
        if claim is None:
            return
        try:
            found = await self.client.get(RESOURCE_CLAIMS, claim.name, namespace=claim.namespace)
        except NotFoundError:
            found = None
        except GcushareError as error:
            logger.warning("a prepared claim cannot be read %s", fields(claim=claim.key, reason=error))
            return
        if uid not in self.prepared.claims:
            return
        driver, node = self.prepared.form.vendor.claims.driver, self.prepared.node
        if found is not None and found.metadata.uid == uid and is_in_pool(found, driver, node):
            self._orphan_since.pop(uid, None)
            if uid in self._unseen_since:
                self._unseen_since[uid] = self.clock()  # ask again in a while
            try:
                self.prepared.update_users(uid, users_of(found))
            except DeviceError as error:
                logger.warning("the users of a claim are not stored %s", fields(claim=claim.key, reason=error))
        elif uid in self._unseen_since and uid not in self._orphan_since:
            self._orphan_since[uid] = self.clock()
            logger.warning("no container has a claim that is this node's no more %s", fields(claim=claim.key, uid=uid))

    async def _release(self) -> None:
        now_s = self.clock()
        due = [uid for uid, since_s in self._orphan_since.items() if now_s - since_s >= self.release_s]
        running = await self.running() if due else None
        for uid in due:
            claim = self.prepared.claims.get(uid)
            if claim is None or any(each.uid in (running or ()) for each in claim.users):
                continue
            try:
                self.prepared.unprepare(uid)
            except DeviceError as error:
                logger.warning("an orphaned claim cannot be released; will retry %s", fields(reason=error))
                continue
            del self._orphan_since[uid]
            self.announce("ClaimReleased", f"claim {claim.key} is this node's no more, and in no container: released")
