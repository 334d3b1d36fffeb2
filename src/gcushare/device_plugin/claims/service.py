"""The kubelet's calls on ``dra.sock``: prepare and unprepare claims.

Each claim of a call has its own answer: one that cannot be prepared gets an error and does not delay the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias
from weakref import WeakValueDictionary

import grpc

from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError, NotFoundError, Refused, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import RESOURCE_CLAIMS
from gcushare.wire.dra.checkpoint import PreparedClaim
from gcushare.wire.protos import dra_pb2 as pb
from gcushare.wire.protos import services
from gcushare.wire.protos.services import read_message

logger = logging.getLogger(__name__)

CALLS = (services.NODE_PREPARE_RESOURCES, services.NODE_UNPREPARE_RESOURCES)
"""The kubelet's calls that are timed and counted, each claim of them by itself."""
_ASK_S = 3.0
"""How long a call for a claim that is prepared waits for the API server."""


ClaimsOfContainers: TypeAlias = Mapping[tuple[str, str], Collection[str]]
"""Claims, ``namespace/name``, by pod and container."""


@dataclass(eq=False)
class ClaimsService:
    """The service of one driver on one node.

    ``inventory`` returns the cards, or raises why none may be given. ``keep_limits`` limits the memory of a
    claim's pods before their containers are created, or raises why it cannot. ``observe`` is called for each claim of a
    call with the call's name, the seconds and the error's class name, "" on success.
    """

    prepared: PreparedClaims
    client: KubeClient
    _: KW_ONLY
    inventory: Callable[[], Inventory]
    claims_of_containers: Callable[[], Awaitable[ClaimsOfContainers]]
    keep_limits: Callable[[PreparedClaim], Awaitable[None]] | None = None
    pool: str
    clock: Callable[[], float]
    observe: Callable[[str, float, str], None]

    def __post_init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler to add to a server."""
        unary = grpc.unary_unary_rpc_method_handler
        calls = {
            services.NODE_PREPARE_RESOURCES: unary(self._node_prepare_resources),
            services.NODE_UNPREPARE_RESOURCES: unary(self._node_unprepare_resources),
        }
        return grpc.method_handlers_generic_handler(services.DRA_SERVICE, calls)

    async def _node_prepare_resources(self, request: bytes, _context: object) -> bytes:
        response = pb.NodePrepareResourcesResponse()
        claims = read_message(pb.NodePrepareResourcesRequest, request).claims
        ours = {claim.key for claim in self.prepared.claims.values()} | {_key(claim) for claim in claims}
        doubled: Mapping[str, str] = {}
        if len(ours) > 1 and not all(self.prepared.is_complete(claim.uid) for claim in claims):
            doubled = await self._find_doubled(ours)

        async def prepare(claim: pb.Claim) -> PreparedClaim:
            done = await self._prepare(claim, doubled.get(_key(claim), ""))
            if self.keep_limits is not None:
                await self.keep_limits(done)
            return done

        outcomes = await asyncio.gather(
            *(self._answer(services.NODE_PREPARE_RESOURCES, claim, prepare) for claim in claims)
        )
        for claim, (prepared, error) in zip(claims, outcomes, strict=True):
            answer = response.claims[claim.uid]
            answer.error = error
            if prepared is not None:
                self._describe(prepared, answer)
        return response.SerializeToString()

    async def _node_unprepare_resources(self, request: bytes, _context: object) -> bytes:
        response = pb.NodeUnprepareResourcesResponse()

        async def unprepare(claim: pb.Claim) -> None:
            async with self._turn_of(claim.uid):
                self.prepared.unprepare(claim.uid)
                self.prepared.asked.pop(_key(claim), None)

        for claim in read_message(pb.NodeUnprepareResourcesRequest, request).claims:
            _, error = await self._answer(services.NODE_UNPREPARE_RESOURCES, claim, unprepare)
            response.claims[claim.uid].error = error
        return response.SerializeToString()

    async def _find_doubled(self, ours: Collection[str]) -> dict[str, str]:
        """Why claims cannot be prepared because a container uses two of them, by claim.

        Each brings variables of the same names, and a container would see the cards of the last one alone.
        """
        try:
            containers = await self.claims_of_containers()
        except (RetryableError, RemoteContractError) as error:
            logger.warning("which containers use which claims is not known %s", fields(reason=error))
            return {}
        found: dict[str, str] = {}
        for (pod, container), claims in containers.items():
            if len(used := sorted(set(claims).intersection(ours))) > 1:
                words = (
                    f"container {container!r} of pod {pod} uses the claims {' and '.join(used)}, and a container sees "
                    "the cards of one claim alone: ask for all of its cards in one claim, or use the claims in "
                    "different containers"
                )
                found |= dict.fromkeys(used, words)
        return found

    async def _prepare(self, claim: pb.Claim, refusal: str) -> PreparedClaim:
        """Prepare one claim.

        One that is prepared needs neither the API server nor the cards. If the API server has another allocation of it
        on this node, it was given to another pod, and the call that ends the first use never came.
        """
        self.prepared.asked[_key(claim)] = claim.uid
        async with self._turn_of(claim.uid):
            is_done = self.prepared.is_complete(claim.uid)
            if refusal and not is_done:
                raise Refused(refusal)
            timeout_s = _ASK_S if is_done else None
            try:
                found = await self.client.get(
                    RESOURCE_CLAIMS, claim.name, namespace=claim.namespace, timeout_s=timeout_s
                )
            except GcushareError as error:
                if (done := self.prepared.complete(claim.uid)) is not None:
                    logger.warning("a prepared claim stays as it is %s", fields(claim=_key(claim), reason=error))
                    return done
                if isinstance(error, NotFoundError):
                    raise Refused("the claim does not exist any more; delete the pod") from error
                raise
            if not self.prepared.is_moved(found, claim.uid) and (done := self.prepared.complete(claim.uid)):
                return done
            return self.prepared.prepare(found, claim.uid, self.inventory())

    def _turn_of(self, uid: str) -> asyncio.Lock:
        """The calls for one claim come one after the other: the later one decides."""
        return self._turns.setdefault(uid, asyncio.Lock())

    async def _answer(
        self, call: str, claim: pb.Claim, work: Callable[[pb.Claim], Awaitable[PreparedClaim | None]]
    ) -> tuple[PreparedClaim | None, str]:
        """Do the work of one claim; returns its result and "", or None and why it failed."""
        started = self.clock()
        try:
            result = await work(claim)
        except GcushareError as error:
            self.observe(call, self.clock() - started, type(error).__name__)
            facts = fields(claim=_key(claim), uid=claim.uid, reason=error)
            logger.warning("%s refused %s", call, facts)
            return None, f"claim {_key(claim)}: {error}"
        except Exception:
            self.observe(call, self.clock() - started, "defect")
            raise  # gRPC logs it and answers the kubelet.
        self.observe(call, self.clock() - started, "")
        return result, ""

    def _describe(self, claim: PreparedClaim, answer: pb.NodePrepareResourceResponse) -> None:
        # Every device names all of the claim's CDI devices: a container may use one request of the claim alone, and the
        # runtime takes a name that comes twice once.
        names = self.prepared.cdi_ids(claim)
        for device in claim.devices:
            answer.devices.add(
                request_names=[device.request],
                pool_name=self.pool,
                device_name=device.device,
                cdi_device_ids=names,
                share_id=device.share_id,
            )


def _key(claim: pb.Claim) -> str:
    """``namespace/name``."""
    return f"{claim.namespace}/{claim.name}"
