"""bind: reserve in the ledger, send one Binding that carries the record, and learn its outcome.

The steps, and what holds if the process dies after each of them:

1. reserved: nothing outside has changed. The restarted extender counts bound pods, so not this one.
2. Binding sent: the API server binds the pod with its record, or does neither. The restarted extender reads which.
3. answered: the reservation stays until the watch confirms it, or until `BindingClient.confirm` reads the pod.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from gcushare.core.assignments import Assignment
from gcushare.core.errors import GcushareError, Refused
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.kube.client import KubeClient
from gcushare.scheduler_extender.leadership import Leadership
from gcushare.scheduler_extender.state.scheduling_request import (
    RejectedRequest,
    SchedulingRequest,
    read_scheduling_request,
)
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.binding_client import BindAttempt, BindingClient, BindTimes
from gcushare.scheduler_extender.verbs.pod_lookup import read_unbound
from gcushare.wire.annotations import PodRecord, encode_record
from gcushare.wire.extender_api import BindArguments

logger = logging.getLogger(__name__)

_MAX_LOGGED_PODS = 20
"""Other pods named in the line of a bind; a card in units of 1 MiB may have a hundred."""


@dataclass(eq=False)
class BindService:
    """Binds pods of one vendor. Calls for one pod share one bind: the scheduler may repeat a call before its answer."""

    state: VendorState
    client: KubeClient
    leadership: Leadership
    _: KW_ONLY
    times: BindTimes = field(default_factory=BindTimes)
    now_ns: Callable[[], int] = time.time_ns
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.sender = BindingClient(self.state, self.client, self.leadership, self.times, self.monotonic)
        self._under_way: dict[str, tuple[BindArguments, asyncio.Task[None]]] = {}

    async def bind(self, arguments: BindArguments) -> None:
        """Bind a pod to a node and choose its cards; safe to repeat.

        Raises:
            NotLeader: another replica serves.
            Refused: pod or node unknown, another pod has the name, bound to another node, or the room is gone.
            GcushareError: the API server refused or could not be reached; the message has the pod's state.
        """
        under_way = self._under_way.get(arguments.pod.uid)
        if under_way is not None:
            asked, task = under_way
            if asked != arguments:
                raise Refused(
                    f"pod {asked.pod} ({asked.pod.uid}) is being bound to node {asked.node!r}; ask again when that "
                    "has ended"
                )
        else:
            # A task of its own: a scheduler that stops waiting must not cancel a half-sent Binding.
            task = asyncio.create_task(self._bind(arguments), name=f"bind {arguments.pod}")
            self._under_way[arguments.pod.uid] = (arguments, task)
            task.add_done_callback(lambda done: self._finish(arguments.pod.uid, done))
        await asyncio.shield(task)

    async def drain(self, within_s: float | None = None) -> None:
        """Wait until no binding is in progress.

        ``within_s``: seconds after which the rest is cancelled; by default the longest time that a bind may take.
        """
        tasks = [task for _, task in self._under_way.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self.times.total_s if within_s is None else within_s)
        if late:
            logger.warning("bindings cancelled %s", fields(count=len(late)))
            for task in late:
                task.cancel()
            await asyncio.wait(late)

    @property
    def under_way(self) -> int:
        """How many bindings have begun and have no answer yet."""
        return len(self._under_way)

    async def confirm(self, *, older_than_s: float) -> None:
        """Settle reservations that stayed unconfirmed for so long; see `BindingClient.confirm`."""
        await self.sender.confirm(older_than_s=older_than_s, busy=self._under_way.keys())

    def _finish(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._under_way[uid]
        if not task.cancelled():
            task.exception()  # Retrieved, so asyncio does not report it: the caller gets it, and it is in the log.

    async def _bind(self, arguments: BindArguments) -> None:
        self.sender.check_leader()
        started = self.monotonic()
        deadline_s = started + self.times.total_s
        try:
            if self._is_done(arguments):
                return
            uid, node, state = arguments.pod.uid, arguments.node, self.state
            is_allocated = state.counts_by_claim(uid) and state.bound[uid].node == node
            if is_allocated or node in (state.named_without_record.get(uid) or ()):
                attempt = await self._send_without_cards(arguments, deadline_s)
            else:
                request = await self._find_request(arguments, deadline_s)
                earlier = self.sender.unconfirmed(uid)
                if earlier is not None and earlier.node != node:
                    await self.sender.check_unbound(earlier, deadline_s)
                attempt, is_doubtful = self._prepare(arguments, request)
                if not is_doubtful:
                    await self._wait_turn(request, node, deadline_s)
                await self.sender.send(attempt, deadline_s, version=request.version, is_doubtful=is_doubtful)
        except GcushareError as error:
            logger.warning(
                "not bound %s", fields(pod=arguments.pod, uid=arguments.pod.uid, node=arguments.node, reason=error)
            )
            raise
        self._log_bound(attempt, ms=round((self.monotonic() - started) * 1000, 2))

    async def _wait_turn(self, request: SchedulingRequest, node: str, deadline_s: float) -> None:
        """Wait until the kubelet can take its calls for this pod for those of no other pod that starts on the node.

        Raises:
            Refused: another pod did not start in time; nothing is reserved any more.
        """
        state, uid = self.state, request.pod.uid
        if request.calls is None:
            return
        state.starting.add(uid, node, request.calls)
        patience_s = deadline_s - self.monotonic() - self.times.attempt_s
        try:
            ahead = await state.starting.wait_turn(uid, node, patience_s)
        except asyncio.CancelledError:
            state.ledger.roll_back(uid)
            raise
        if ahead is not None:
            state.ledger.roll_back(uid)
            raise Refused(
                f"pod {ahead} starts on node {node} and asks the kubelet for the same amount by other rules, so the "
                "two could get each other's cards: this pod is bound there once that one has started"
            )

    def _log_bound(self, attempt: BindAttempt, *, ms: float) -> None:
        """Write the one line that explains a bind: which card, who is on it, and what the Binding changed."""
        held, old = attempt.assignment, dict(attempt.old_annotations)
        node = self.state.ledger.nodes.get(held.node)
        cards = {} if node is None else node.cards
        found = [cards.get(grant.index) for grant in held.grants]
        logger.info(
            "bound %s",
            fields(
                pod=held.pod,
                uid=held.pod.uid,
                node=held.node,
                card=",".join(str(grant.index) for grant in held.grants),
                card_uuid=",".join(each.card.uuid for each in found if each is not None and each.card is not None),
                units=held.units,
                card_pods="" if node is None else _describe_others(node, held),
                old_annotations=json.dumps(old),
                new_annotations=json.dumps(old | attempt.annotations),
                ms=ms,
            ),
        )

    async def _send_without_cards(self, arguments: BindArguments, deadline_s: float) -> BindAttempt:
        """Bind a pod without a record: kube-scheduler has allocated its claim, or it asks for 0 of our resources."""
        pod = await read_unbound(self.client, arguments.pod, timeout_s=self.sender.patience_s(deadline_s))
        attempt = BindAttempt(Assignment(arguments.pod, arguments.node, ()), {})
        await self.sender.send(attempt, deadline_s, version=pod.metadata.resource_version, is_doubtful=False)
        return attempt

    def _is_done(self, arguments: BindArguments) -> bool:
        """Whether an earlier call has bound this pod.

        Raises:
            Refused: to another node, or the uid is another pod's.
        """
        uid = arguments.pod.uid
        held = self.state.bound.get(uid)
        if self.state.counts_by_claim(uid):
            return False  # Its claim is allocated, which does not say that the pod is bound.
        if held is None:
            unconfirmed = self.sender.unconfirmed(uid)
            if unconfirmed is None or not unconfirmed.is_acknowledged:
                return False
            held = self.state.ledger.assignment(uid)
        if held is None:
            return False
        if str(held.pod) != str(arguments.pod):
            raise Refused(f"uid {uid!r} is pod {held.pod}, not {arguments.pod}")
        if held.node != arguments.node:
            raise Refused(f"pod {arguments.pod} is bound to node {held.node!r} already, not {arguments.node!r}")
        return True

    async def _find_request(self, arguments: BindArguments, deadline_s: float) -> SchedulingRequest:
        """The pod's request, from the watch or filter, else read. Uid and name must belong to one pod."""
        waiting = self.state.waiting.get(arguments.pod.uid)
        if isinstance(waiting, RejectedRequest):
            raise Refused(f"pod {arguments.pod}: {waiting.problem}")
        request = self.state.find_request(arguments.pod.uid)
        if request is None:
            pod = await read_unbound(self.client, arguments.pod, timeout_s=self.sender.patience_s(deadline_s))
            request = read_scheduling_request(pod, self.state.vendor, self.state.policies)
        if request is None:
            raise Refused(f"pod {arguments.pod} asks for no {self.state.vendor.memory_resource} and no whole card")
        if str(request.pod) != str(arguments.pod):
            raise Refused(f"uid {arguments.pod.uid!r} is pod {request.pod}, not {arguments.pod}")
        return request

    def _prepare(self, arguments: BindArguments, request: SchedulingRequest) -> tuple[BindAttempt, bool]:
        """Reserve cards for the pod. The second value says whether the same Binding was sent before.

        Cards that an earlier Binding may still bind stay reserved: for the same node the same cards are used again, and
        for another node the earlier reservation is parked.
        """
        uid, sender = arguments.pod.uid, self.sender
        earlier = sender.unconfirmed(uid)
        if earlier is not None and earlier.node == arguments.node:
            return earlier.attempt, True
        if earlier is not None:
            sender.park(uid)
        if (parked := sender.unpark(uid, arguments.node)) is not None:
            return parked.attempt, True
        try:
            return self._reserve(arguments, request), False
        except Refused:
            if earlier is not None:
                sender.unpark(uid, earlier.node)
            raise

    def _reserve(self, arguments: BindArguments, request: SchedulingRequest) -> BindAttempt:
        ledger, nominations, node = self.state.ledger, self.state.nominations, arguments.node
        left = nominations.room_left(request, node)
        try:
            preferences = self.state.preferences
            standing = preferences.find_standing(request, node)
            rank = preferences.rank_cards(request, ledger.nodes.get(node))
            ledger.reserve(request.pod, node, request.cards, rank, left=left)
            named = len(self.state.named_with_record.get(request.pod.uid) or (node,))
            preferences.record_choice(request, node, standing, named)
        except Refused as error:
            if not left:
                raise
            raise Refused(f"{error}; room of node {node} is {nominations.describe_kept(request, node)}") from error
        assignment = ledger.stamp(arguments.pod.uid, self.now_ns())
        cards = ledger.nodes[arguments.node].cards
        record = PodRecord(
            card_indexes=tuple(grant.index for grant in assignment.grants),
            card_units=max(cards[grant.index].total for grant in assignment.grants),
            pod_units=assignment.units,
            assign_time_ns=assignment.assign_time_ns,
            whole=request.cards.whole,
            uid=arguments.pod.uid,
            apart=str(request.cards.apart or ""),
        )
        annotations = encode_record(self.state.vendor, record)
        # A Binding removes nothing: what the record of another life has more is made empty.
        annotations |= {key: "" for key, value in request.old_record if value and key not in annotations}
        return BindAttempt(assignment, annotations, request.old_record)


def _describe_others(node: NodeState, held: Assignment) -> str:
    """The other pods on the cards of an assignment, as namespace/name:units, by name."""
    indexes = {grant.index for grant in held.grants}
    others = sorted(
        f"{other.pod}:{grant.units}"
        for other in node.assignments.values()
        for grant in other.grants
        if grant.index in indexes and other.pod.uid != held.pod.uid
    )
    more = f" and {len(others) - _MAX_LOGGED_PODS} more" if len(others) > _MAX_LOGGED_PODS else ""
    return ",".join(others[:_MAX_LOGGED_PODS]) + more
