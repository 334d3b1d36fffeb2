"""Pods for which room is kept on a node: preemptors whose victims are ending, and members of a group being placed.

kube-scheduler writes the node into the pod's ``status.nominatedNodeName``. If preempt answered one node only, our own
answer tells us a moment earlier. As in kube-scheduler, room is kept from pods of the same or a lower priority; a pod of
a higher priority may take it.

kube-scheduler filters all members of a PodGroup before it binds the first (1.36, ``schedule_one_podgroup.go``). In
between only the scheduler's own snapshot counts them, by sums and not by cards. So filter names one node for a member
and keeps the room there, for everyone else and for the members that follow: a group is bound as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from gcushare.core.assignments import ApartGroup, PodRef
from gcushare.core.fit_index import Shape
from gcushare.core.ledger import Ledger
from gcushare.core.preemption import kept_room
from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest

KEPT_S = 300.0
"""How long room is kept: ten times the default grace period of pods. If a victim takes longer, its preemptor chooses
again. A preemptor that never comes back must not block a card."""

EXPECTED_S = 10.0
"""How long our answer to preempt counts until the watch shows the nomination, which takes milliseconds."""

GROUP_KEPT_S = 1.0
"""How long room is kept for a group after the last filter call for one of its members: its binds follow at once. The
scheduler does not say that it gave a group up. It tries again after a second or more, and must find that room free."""

GROUP_REFUSED_S = 0.05
"""The same once a member was refused: the group is placed without that member, or not at all. Two groups that keep room
from each other for longer would both be refused again and again."""

MAX_NOMINEES = 1024
"""Nominees stored. If there are more, the oldest is dropped and competes like any other pod."""

_MAX_VICTIMS = 256
"""Victims stored of one answer; the watch shows leaving pods a moment later anyway."""


@dataclass(frozen=True, slots=True)
class Nominee:
    """A pod for which room is kept. ``is_seen``: its status names the node; otherwise only preempt's answer does.

    ``is_over``: its time has passed, and that was announced. ``group``: the PodGroup, for a member of one that is being
    placed.
    """

    pod: PodRef
    request: CardRequest
    node: str
    since_s: float
    is_seen: bool
    victims: frozenset[str] = frozenset()
    is_over: bool = False
    group: str = ""

    def ends_s(self) -> float:
        if self.group:
            return self.since_s + GROUP_KEPT_S
        return self.since_s + (KEPT_S if self.is_seen else EXPECTED_S)


@dataclass(eq=False)
class Nominations:
    """The nominees of one vendor, in the order in which they were nominated, and the pods that are leaving.

    ``announce`` is called with each node that keeps room for one nominee less: the ledger does not change then.
    """

    ledger: Ledger
    monotonic: Callable[[], float]
    _: KW_ONLY
    announce: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._nominees: dict[str, Nominee] = {}
        self._refused: dict[str, str] = {}
        """By uid: the group of a member that was refused last, in the attempt that is under way or was the last."""
        self.leaving: set[str] = set()
        """Pods with cards whose deletion was asked for."""

    def __len__(self) -> int:
        return len(self._nominees)

    def __contains__(self, uid: object) -> bool:
        return uid in self._nominees

    def expect(self, request: SchedulingRequest, kept: Mapping[str, Sequence[str]]) -> None:
        """Record preempt's answer, the victims by node. With several nodes, the scheduler has yet to choose.

        For a nominee of this node the time starts again, because other victims end for it than before.
        """
        if len(kept) != 1:
            return
        ((node, victims),) = kept.items()
        known = self._nominees.get(request.pod.uid)
        is_seen = known is not None and known.node == node and known.is_seen
        self._record(request, node, is_seen=is_seen, victims=frozenset(victims[:_MAX_VICTIMS]))

    def begin_member(self, request: SchedulingRequest) -> None:
        """Filter is called for a member of a group: drop what an earlier attempt kept for it and for later members."""
        known = self._nominees.get(request.pod.uid)
        if known is not None and known.group:
            self._forget_refusals(request.group)
            members = self._find_members(request.group)
            for uid in members[members.index(request.pod.uid) :]:
                self.forget(uid)

    def expect_member(self, request: SchedulingRequest, node: str) -> None:
        """Keep the room that filter found for a member, and that of the members before it for longer."""
        self._refused.pop(request.pod.uid, None)  # kube-scheduler may ask about the nominated node alone first.
        self._record(request, node, is_seen=False, group=request.group)
        self._renew(request.group)

    def refuse_member(self, request: SchedulingRequest) -> None:
        """A member fits nowhere: keep the room of the others for a moment only."""
        self._refused[request.pod.uid] = request.group
        self._renew(request.group)

    def _forget_refusals(self, group: str) -> None:
        self._refused = {uid: each for uid, each in self._refused.items() if each != group}

    def _renew(self, group: str) -> None:
        """Let the time of a group's members start again."""
        since_s = self.monotonic() - (GROUP_KEPT_S - GROUP_REFUSED_S if group in self._refused.values() else 0.0)
        members = self._find_members(group)
        self._nominees |= {uid: replace(self._nominees[uid], since_s=since_s, is_over=False) for uid in members}
        if not members:
            self._forget_refusals(group)

    def _find_members(self, group: str) -> list[str]:
        return [uid for uid, nominee in self._nominees.items() if nominee.group == group]

    def update(self, request: SchedulingRequest, node: str) -> None:
        """Update from an unbound pod's status. ``node``: the one that it is nominated for; empty for none."""
        known = self._nominees.get(request.pod.uid)
        if not node:
            if known is not None and known.is_seen:
                self.forget(request.pod.uid)
            return
        if known is None or known.node != node:
            self._record(request, node, is_seen=True)
        elif not known.is_seen:
            self._record(request, node, is_seen=True, victims=known.victims)

    def forget(self, uid: str) -> None:
        """Drop a nominee that is bound or gone; repeatable."""
        self._refused.pop(uid, None)
        if (known := self._nominees.pop(uid, None)) is not None:
            self.announce(known.node)

    def announce_ended(self) -> None:
        """Announce the nominees whose time has passed, each once. Preempt may still start the time again."""
        now_s = self.monotonic()
        for uid, nominee in self._nominees.items():
            if not nominee.is_over and now_s >= nominee.ends_s():
                self._nominees[uid] = replace(nominee, is_over=True)
                self.announce(nominee.node)

    def closed_to(self, request: SchedulingRequest) -> frozenset[str]:
        """The nodes where a pod fits only into room that is kept for nominees. Mostly none."""
        if not self._nominees:
            return frozenset()
        closed: list[str] = []
        for name, ahead in self.find_ahead(request.pod).items():
            node = self.ledger.nodes.get(name)
            if node is None or not node.fits(request.cards):
                continue
            left = self.find_room(name, ahead, request.cards.apart).left
            if not kept_room.fits_after_nominees(node, request.cards, left):
                closed.append(name)
        return frozenset(closed)

    def find_peers(self, request: SchedulingRequest) -> tuple[Shape, int, str]:
        """A key that pods share if the same nodes are closed to them: shape and priority; a nominee has its own."""
        pod = request.pod
        return request.shape, pod.priority, pod.uid if pod.uid in self._nominees else ""

    def room_left(self, request: SchedulingRequest, node: str) -> kept_room.RoomLeft:
        """Units of a node's cards that are left to a pod; empty if nothing is kept from it."""
        ahead = self.find_ahead(request.pod).get(node)
        return self.find_room(node, ahead, request.cards.apart).left if ahead else {}

    def describe_kept(self, request: SchedulingRequest, node: str) -> str:
        """Name the nominees for which room of a node is kept from a pod."""
        names = (f"{each.pod} (priority {each.pod.priority})" for each in self.find_ahead(request.pod).get(node, ()))
        return f"kept for {', '.join(names)}"

    def find_ahead(self, pod: PodRef) -> dict[str, list[Nominee]]:
        """By node: the nominees that a pod has to leave room for, the highest priority first.

        Of two nominees of one priority, the earlier one goes first, so that they do not wait for each other. A group
        that is being placed goes before everyone who comes later, whatever the priority.
        """
        now_s, ahead = self.monotonic(), dict[str, list[Nominee]]()
        is_before = True
        for uid, nominee in self._nominees.items():
            if uid == pod.uid:
                is_before = False
            elif now_s < nominee.ends_s() and not self.ledger.is_reserved(uid):
                priority = nominee.pod.priority
                if priority > pod.priority or (is_before and (priority == pod.priority or nominee.group)):
                    ahead.setdefault(nominee.node, []).append(nominee)
        for nominees in ahead.values():
            nominees.sort(key=lambda nominee: -nominee.pod.priority)
        return ahead

    def find_room(
        self, name: str, ahead: Sequence[Nominee], apart: ApartGroup | None = None
    ) -> kept_room.RoomAfterNominees:
        """The room that a node has for a pod after the nominees ``ahead`` of it, and which pods are leaving.

        ``apart``: the pods with which it shares no card.
        """
        node = self.ledger.nodes.get(name)
        if node is None or not (ahead or self.leaving):
            return kept_room.NO_NOMINEES
        expected = frozenset().union(*(nominee.victims for nominee in ahead))
        leaving = frozenset(uid for uid in node.assignments if uid in self.leaving or uid in expected)
        return kept_room.RoomAfterNominees(
            leaving, kept_room.compute_room_left(node, [nominee.request for nominee in ahead], leaving, apart)
        )

    def _record(
        self,
        request: SchedulingRequest,
        node: str,
        *,
        is_seen: bool,
        victims: frozenset[str] = frozenset(),
        group: str = "",
    ) -> None:
        """Keep room from now on. A nominee that stays on its node keeps its place among equals."""
        uid, now_s = request.pod.uid, self.monotonic()
        if (known := self._nominees.get(uid)) is not None and known.node != node:
            self.forget(uid)
        self._nominees[uid] = Nominee(request.pod, request.cards, node, now_s, is_seen, victims, group=group)
        if len(self._nominees) > MAX_NOMINEES:
            self.forget(next(iter(self._nominees)))
