"""kube-scheduler: asks, retries, backs off, gives up until something happens, and restarts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from gcushare_playground.apiserver.storage import Revision
from simulation.preempting import CallError, Preemption
from simulation.process import Process
from simulation.store import FINISHED
from simulation.views import View

if TYPE_CHECKING:
    from simulation.world import World

EXTENDER_TIMEOUT_S = 5.0
FLUSH_S = 300.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 10.0


class Scheduler:
    """One scheduler; ``start`` it again and it has forgotten everything."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.process = Process("scheduler")
        self.is_up = False

    def start(self) -> None:
        """Start, or start again."""
        self.stop()
        world = self.world
        self.is_up = True
        self.process = Process("scheduler")
        self._active: dict[str, float] = {}
        """Pods to try, by uid, and from when."""
        self._waiting: dict[str, float] = {}
        """Pods that fit nowhere, and since when."""
        self._failures: dict[str, int] = {}
        self._assumed: dict[str, tuple[str, dict[str, int]]] = {}
        self.by_uid: dict[str, Revision] = {}
        self._preemption = Preemption(self)
        self._wake = asyncio.Event()
        self.pods = View(world.loop, world.store, "pods", self.rng, matches=lambda _: True, on_change=self._pod_changed)
        self.nodes = View(
            world.loop, world.store, "nodes", self.rng, matches=lambda _: True, on_change=self._node_changed
        )
        world.views += [self.pods, self.nodes]
        for stored in list(self.pods.objects.values()):
            self._pod_changed(None, stored)
        world.loop.create_task(self._run(), context=self.process.context)

    def stop(self) -> None:
        """End at once."""
        if not self.is_up:
            return
        self.is_up = False
        self.world.loop.kill(self.process)
        for view in (self.pods, self.nodes):
            view.close()
            self.world.views.remove(view)

    # What it hears

    def _pod_changed(self, before: Revision | None, now: Revision | None) -> None:
        if before is not None and (now is None or now.uid != before.uid):
            self._forget(before.uid)
            self._move_all()
        if now is None:
            return
        uid, doc = now.uid, now.obj
        self.by_uid[uid] = now
        is_over = doc["status"].get("phase") in FINISHED
        if doc["spec"].get("nodeName"):
            self._assumed.pop(uid, None)
            self._active.pop(uid, None)
            self._waiting.pop(uid, None)
            if is_over:
                self._move_all()
            return
        if is_over or doc["metadata"].get("deletionTimestamp"):
            self._forget(uid)
        elif uid in self._waiting:
            self._move(uid)
        elif uid not in self._active and uid not in self._assumed:
            self._active[uid] = 0.0
        self._wake.set()

    def _node_changed(self, before: Revision | None, now: Revision | None) -> None:
        if now is None or before is None:
            self._move_all()
            return
        if self._heeded(before.obj) != self._heeded(now.obj):
            self._move_all()

    def _heeded(self, node: dict[str, Any]) -> tuple[Any, ...]:
        """What of a node it compares: schedulers up to 1.26 heed labels, but no annotations."""
        meta = node["metadata"]
        return node["spec"], node["status"], meta.get("labels") if self.world.settings.old_scheduler else meta

    def _forget(self, uid: str) -> None:
        for known in (self._active, self._waiting, self._failures, self._assumed, self.by_uid):
            known.pop(uid, None)

    def _move_all(self) -> None:
        for uid in list(self._waiting):
            self._move(uid)
        self._wake.set()

    def _move(self, uid: str) -> None:
        since_s = self._waiting.pop(uid)
        self._active[uid] = since_s + self._backoff_s(uid)

    def _backoff_s(self, uid: str) -> float:
        return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** max(0, self._failures.get(uid, 1) - 1))

    # What it does

    async def _run(self) -> None:
        while True:
            now_s = self.world.loop.now_s
            due = [
                (-self.by_uid[uid].obj["spec"].get("priority", 0), order, uid)
                for order, (uid, from_s) in enumerate(self._active.items())
                if from_s <= now_s
            ]
            if due:
                uid = min(due)[2]
                del self._active[uid]
                await self._schedule(self.by_uid[uid])
                continue
            for uid, since_s in list(self._waiting.items()):
                if now_s - since_s >= FLUSH_S:
                    self._move(uid)
            next_s = min([*self._active.values(), now_s + 30.0]) - now_s
            self._wake.clear()
            try:
                async with asyncio.timeout(max(0.01, next_s)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _schedule(self, pod: Revision) -> None:
        await asyncio.sleep(0.001)
        names = [name for name in sorted(key[1] for key in self.nodes.objects) if self.fits(pod, name)]
        try:
            best = await self._ask(pod, names) if names else ""
        except CallError as error:
            self.world.note(f"scheduler: {'/'.join(pod.key)}: {error}")
            self._fail(pod.uid, is_error=True)
            return
        if pod.uid not in self.by_uid:
            return
        if not best:
            await self._preemption.try_for(pod)
            self._fail(pod.uid, is_error=False)
            return
        self._assumed[pod.uid] = (best, self._asks(pod))
        self.world.loop.create_task(self._bind(pod, best), context=self.process.context)

    def _fail(self, uid: str, *, is_error: bool) -> None:
        pod = self.by_uid.get(uid)
        if pod is None or pod.obj["spec"].get("nodeName"):
            return
        self._failures[uid] = self._failures.get(uid, 0) + 1
        if is_error and not self.world.settings.old_scheduler:
            self._active[uid] = self.world.loop.now_s + self._backoff_s(uid)
        else:
            self._waiting[uid] = self.world.loop.now_s

    def _asks(self, pod: Revision) -> dict[str, int]:
        """What a pod asks for of each resource: the sum of its containers, or its largest init container."""
        spec = pod.obj["spec"]
        asked: dict[str, int] = {}
        for container in spec["containers"]:
            for name, amount in container["resources"]["limits"].items():
                asked[name] = asked.get(name, 0) + int(amount)
        for container in spec.get("initContainers", ()):
            for name, amount in container["resources"]["limits"].items():
                asked[name] = max(asked.get(name, 0), int(amount))
        return asked

    def fits(self, pod: Revision, name: str, without: Collection[str] = ()) -> bool:
        """kube-scheduler's own filters: labels, cordons, and the sums of extended resources.

        Nominees that are no less important count as if they ran; who is in ``without``, by uid, as if gone.
        """
        if not self.is_eligible(pod, name):
            return False
        node = self.nodes.objects[("", name)].obj
        used: dict[str, int] = {}
        priority = pod.obj["spec"].get("priority", 0)
        on_node = [
            each
            for each in self.by_uid.values()
            if each.obj["status"].get("phase") not in FINISHED
            and each.uid not in without
            and (each.obj["spec"].get("nodeName") or self._nomination(each, pod, priority)) == name
        ]
        asks = [*map(self._asks, on_node), *(asked for node_name, asked in self._assumed.values() if node_name == name)]
        for asked in asks:
            for resource, amount in asked.items():
                used[resource] = used.get(resource, 0) + amount
        allocatable = node["status"]["allocatable"]
        return all(
            used.get(resource, 0) + amount <= int(allocatable.get(resource, "0"))
            for resource, amount in self._asks(pod).items()
        )

    def _nomination(self, other: Revision, pod: Revision, priority: int) -> str:
        """For which node another pod is nominated, if a pod of this priority has to leave it the room."""
        if other.uid == pod.uid or other.uid in self._assumed or other.obj["spec"].get("priority", 0) < priority:
            return ""
        return str(other.obj["status"].get("nominatedNodeName") or "")

    def is_eligible(self, pod: Revision, name: str) -> bool:
        """Whether a node's labels and cordon let a pod in: where not, no one's end would help."""
        node = self.nodes.objects[("", name)].obj
        selector = pod.obj["spec"].get("nodeSelector", {})
        labels = node["metadata"].get("labels", {})
        return not node["spec"].get("unschedulable") and all(labels.get(key) == each for key, each in selector.items())

    async def _ask(self, pod: Revision, names: list[str]) -> str:
        """Filter and prioritize; returns the node, or nothing where none fits."""
        body = b'{"Pod":%s,"Nodes":null,"NodeNames":%s}' % (pod.raw, msgspec.json.encode(names))
        answer = await self.call("filter", body)
        if answer.get("Error"):
            raise CallError(f"filter: {answer['Error']}")
        found = answer["NodeNames"] or []
        if not found:
            self.world.invariants.check_reasons(pod, names, answer)
            return ""
        if len(found) == 1:
            return str(found[0])
        body = b'{"Pod":%s,"Nodes":null,"NodeNames":%s}' % (pod.raw, msgspec.json.encode(found))
        scores = {each["Host"]: each["Score"] for each in await self.call("prioritize", body)}
        best = max(scores.values())
        return str(self.rng.choice(sorted(name for name, score in scores.items() if score == best)))

    async def _bind(self, pod: Revision, node: str) -> None:
        meta = pod.obj["metadata"]
        names = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": pod.uid, "Node": node}
        try:
            answer = await self.call("bind", msgspec.json.encode(names))
            problem = answer.get("Error", "")
        except CallError as error:
            problem = str(error)
        if problem:
            self.world.note(f"scheduler: bind of {'/'.join(pod.key)} to {node}: {problem}")
            self._assumed.pop(pod.uid, None)
            if pod.uid in self.by_uid:
                self._fail(pod.uid, is_error=True)
            self._wake.set()

    async def call(self, verb: str, body: bytes) -> Any:
        """Call the extender through its Service."""
        path = f"{self.world.vendor.url_prefix}/{verb}"
        self.world.counts[f"{verb} calls"] += 1
        try:
            async with asyncio.timeout(EXTENDER_TIMEOUT_S):
                code, answer = await self.world.service.call(path, body)
        except (TimeoutError, OSError) as error:
            raise CallError(f"{verb}: {type(error).__name__} {error}") from error
        if code != 200:
            raise CallError(f"{verb}: {code} {answer[:200].decode()}")
        return msgspec.json.decode(answer)
