"""The moves that both scenarios are made of: bring the cluster up, place a pod and check it, have one refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gcushare.core.errors import RemoteContractError
from gcushare.core.wording import counted
from gcushare.kube.patches import Patch, PatchKind
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import PodRecord, decode_record
from gcushare.wire.nodes import cards_of_count
from gcushare_playground.cluster import Cluster
from gcushare_playground.commands import clean_environ, inspect_name, inspect_program, inspect_words
from gcushare_playground.demo.expecting import Ledger
from gcushare_playground.demo.reading import (
    ContainerSight,
    fetch_sight,
    fetch_table,
    kubelet_cards,
    pods_by_card,
    render_inspect,
)
from gcushare_playground.demo.stage import Stage
from gcushare_playground.picture import (
    NODE_OBJECTS,
    POD_OBJECTS,
    JsonObject,
    NotInTime,
    allocatable_of,
    condition_of,
    key_of,
    node_of,
    phase_of,
)
from gcushare_playground.processes import capture

NAMESPACE, CONTAINER = "default", "main"
"""Of the pods that ``create`` makes unless its caller names others."""
NO_WORDS: Mapping[str, str] = {}
_STEP_DEADLINE_S = 60.0


class Player:
    """One scenario's cluster, stage and bookkeeping."""

    def __init__(self, cluster: Cluster, stage: Stage) -> None:
        self.cluster = cluster
        self.stage = stage
        (node,) = cluster.plan.nodes
        self.node = node.name
        self.ledger = Ledger(cluster.plan.units_per_card(node))
        self.shown: dict[int, dict[str, int]] = {}

    @property
    def vendor(self) -> Vendor:
        return self.cluster.plan.vendor

    async def bring_up(self) -> None:
        """Start everything in the order of an installation and check what the nodes offer."""
        cluster, stage = self.cluster, self.stage
        await self.start_kubernetes("device plugin and extender")
        stage.command(f"kubectl label node {self.node} {self.vendor.node_label}")
        patch = Patch(PatchKind.MERGE, {"metadata": {"labels": cluster.plan.label()}})
        await cluster.client.patch(NODE_OBJECTS, self.node, patch)
        stage.output(f"node/{self.node} labeled")
        # The label is what the DaemonSet of the device plugin selects nodes by.
        await asyncio.gather(cluster.start_extender(), cluster.start_plugins(cluster.plan.nodes))
        await self.start_scheduler(f"calls {cluster.extender_url}{self.vendor.url_prefix}")
        await cluster.wait_ready()
        self._check_node(self.node)

    async def start_kubernetes(self, programs: str) -> None:
        """Start the API server and the kubelets."""
        cluster, stage = self.cluster, self.stage
        stage.step(f"The cluster: doubles of API server, kubelet and scheduler; the real {programs}")
        await cluster.start_api_server()
        stage.say(f"API server         {cluster.api_url}")
        await cluster.start_kubelets()
        stage.say(f"kubelet            {', '.join(sorted(cluster.nodes.objects))}")

    async def start_scheduler(self, words: str) -> None:
        """Show the programs, and start the scheduler."""
        for child in self.cluster.programs():
            self.stage.say(f"{child.name:<40} pid {child.pid}")
        await self.cluster.start_scheduler()
        self.stage.say(f"scheduler          {words}")

    async def create(
        self,
        name: str,
        limits: Mapping[str, int],
        *,
        namespace: str = NAMESPACE,
        container: str = CONTAINER,
        annotations: Mapping[str, str] = NO_WORDS,
        labels: Mapping[str, str] = NO_WORDS,
    ) -> None:
        """Create a pod of one container, and show what it asks for."""
        words = (f"{key}: {value}" for asked in (limits, labels, annotations) for key, value in asked.items())
        self.stage.command(f"kubectl create -f {name}.json    # {', '.join(words)}")
        metadata = {"name": name, "namespace": namespace, "annotations": dict(annotations), "labels": dict(labels)}
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {key: value for key, value in metadata.items() if value},
            "spec": pod_spec(container, limits),
        }
        await self.cluster.client.create(POD_OBJECTS, body, namespace=namespace)
        self.stage.output(f"pod/{name} created")

    async def delete(self, name: str, cards: tuple[int, ...]) -> None:
        """Delete a pod of the namespace default that no other shares these cards with."""
        key, pods = f"{NAMESPACE}/{name}", self.cluster.pods
        self.stage.command(f"kubectl delete pod {name}")
        await self.cluster.client.delete(POD_OBJECTS, name, namespace=NAMESPACE)
        await pods.until(lambda: key not in pods.objects, f"{key} is gone")
        self.stage.output(f'pod "{name}" deleted')
        self.ledger.give_back(cards)
        for card in cards:
            self.shown.pop(card)

    async def place(self, key: str, units: int, *, container: str = CONTAINER) -> None:
        """Wait until a created pod runs, show it, and check everything that says where it is."""
        card = self.ledger.card_for(units)
        found = await self.wait_assigned(key)
        await self.show_pods()
        self.stage.check(f"{key} runs on {self.node}", node_of(found), self.node)
        self.take(found["metadata"]["name"], card, units)
        self._check_record(found, card, units)
        await self.show_part(found, container, card, units)
        if not self.vendor.visible_by_uuid:
            await self._check_devices(found, container, card)
        await self.show_inspect()

    def take(self, name: str, card: int, units: int) -> None:
        """Count a pod's units of a card."""
        self.ledger.take(card, units)
        self.shown.setdefault(card, {})[name] = units

    async def refuse(self, key: str, units: int) -> None:
        """Wait until a created pod is informed why it fits nowhere, show it, and check that nothing else changed."""
        expected = self.ledger.refusal(units, self.vendor.memory_resource, self.vendor.refused_reason)
        await self.tell_refused(key, expected)
        await self.check_inspect()

    async def tell_refused(self, key: str, expected: str) -> None:
        """Wait until a pod is informed why it fits nowhere, show it, and check the words."""
        message = await self.wait_refused(key)
        await self.show_pods()
        self.stage.command(f"kubectl describe pod {key.rpartition('/')[2]} -n {key.partition('/')[0]}")
        self.stage.output(f"Events:\n  Warning  FailedScheduling  default-scheduler  {message}")
        self.stage.check(f"{key} is Pending", phase_of(self.cluster.pods.objects[key]), "Pending")
        self.stage.check(f"and says why: {expected}", message[: len(expected)], expected)

    async def show_explain(self, key: str) -> list[str]:
        """Show what explain says of a pod; returns its lines."""
        plan = self.cluster.plan
        self.stage.command(f"kubectl inspect {inspect_name(plan)} explain {key}")
        text = await capture(*inspect_program(plan), "explain", key, environ=clean_environ(self.cluster.place))
        self.stage.output(text)
        return text.splitlines()

    async def show_cluster(self) -> None:
        """Show the table of the whole cluster, and check its last line."""
        cluster, plan = self.cluster, self.cluster.plan
        self.stage.command(f"kubectl inspect {inspect_name(plan)}")
        table = await capture(*inspect_words(plan, cluster.place, cluster.extender_url))
        self.stage.output(table)
        used, total = sum(self.ledger.used), sum(self.ledger.capacity)
        expected = f"{used}/{total} ({100 * used // total}%)"
        self.stage.check(f"in all {expected} are used", table.rstrip().rpartition("\n")[2].strip(), expected)

    def _check_node(self, name: str) -> None:
        node, plan = self.cluster.nodes.objects[name], self.cluster.plan
        offers = plan.offers(plan.nodes[0])
        resources = {word: allocatable_of(node, word) for word in sorted(offers)}
        shown = {word: node["status"]["allocatable"].get(word, "0") for word in resources}
        self.stage.command(f"kubectl describe node {name}")
        width = max(map(len, resources)) + 3
        self.stage.output(
            "\n".join(["Allocatable:", *(f"  {word + ':':<{width}}{text}" for word, text in shown.items())])
        )
        cards = len(self.ledger.capacity)
        self.stage.check(
            f"{name} shows its {counted(cards, 'card')}", cards_of_count(resources[self.vendor.count_resource]), cards
        )
        total = sum(self.ledger.capacity)
        what = f"{name} offers {counted(total, 'unit')} of {plan.unit.label}"
        self.stage.check(what, resources[self.vendor.memory_resource], total)
        if plan.whole_cards:
            word = self.vendor.whole_card_resource
            self.stage.check(f"and its {counted(cards, 'card')} whole", resources[word], cards)

    async def wait_assigned(self, key: str) -> JsonObject:
        """Wait until a pod runs and its record is confirmed."""
        pods = self.cluster.pods

        def is_assigned() -> bool:
            pod = pods.objects.get(key)
            if pod is None or phase_of(pod) != "Running":
                return False
            record = self.record_of(pod)
            return record is not None and record.assigned

        await pods.until(
            is_assigned,
            f"pod {key} runs and its card is confirmed",
            deadline_s=_STEP_DEADLINE_S,
            shown=lambda: describe_pod(pods.objects.get(key)),
        )
        return pods.objects[key]

    async def wait_refused(self, key: str) -> str:
        """Wait until the scheduler says why a pod fits nowhere; returns its message."""
        events = self.cluster.events.objects

        def message() -> str:
            found = (
                event["message"]
                for event in events.values()
                if event["reason"] == "FailedScheduling" and key_of_subject(event) == key
            )
            return next(found, "")

        await self.cluster.events.until(
            lambda: bool(message()),
            f"the scheduler says why pod {key} fits nowhere",
            deadline_s=_STEP_DEADLINE_S,
            shown=lambda: describe_pod(self.cluster.pods.objects.get(key)),
        )
        await self.cluster.pods.until(
            lambda: bool(condition_of(self.cluster.pods.objects.get(key, {}), "PodScheduled")), f"pod {key} is refused"
        )
        return message()

    def record_of(self, pod: JsonObject) -> PodRecord | None:
        """A pod's record, None where it has none."""
        try:
            return decode_record(self.vendor, pod["metadata"].get("annotations") or {})
        except RemoteContractError as error:
            raise NotInTime(f"the record of {key_of(pod)} cannot be read: {error}") from error

    def _check_record(self, pod: JsonObject, card: int, units: int) -> None:
        stage, record = self.stage, self.record_of(pod)
        size = self.ledger.capacity[card]
        expected = ((card,), size, units, True)
        found = record and (record.card_indexes, record.card_units, record.pod_units, record.assigned)
        stage.check(
            f"its record names card {card} of {counted(size, 'unit')}, {units} of them, assigned", found, expected
        )
        held = kubelet_cards(self.cluster, self.node, pod["metadata"]["uid"])
        stage.check(f"the kubelet gave it {counted(units, 'id')} of card {card} and no other", held, {card: units})

    async def show_given(self, pod: JsonObject, container: str, cards: Sequence[int], *more: str) -> ContainerSight:
        """Show which cards a container sees, and ``more`` variables of it; check the cards."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        word, by_uuid = self.vendor.environment.visible, self.vendor.visible_by_uuid
        sight = await fetch_sight(self.cluster, namespace, name, container)
        where = "" if namespace == NAMESPACE else f" -n {namespace}"
        self.stage.command(f"kubectl logs {name}{where}    # what the container was given")
        self.stage.output(sight.select((word, *more)))
        visible = ",".join(f"{node_of(pod)}-card-{card}" if by_uuid else str(card) for card in cards)
        self.stage.check(f"{word}={visible}", sight.environment.get(word), visible)
        return sight

    async def show_part(self, pod: JsonObject, container: str, card: int, units: int) -> None:
        """Show which part of a card a container sees, and check it."""
        names = self.vendor.environment
        sight = await self.show_given(pod, container, (card,), names.card_units, names.container_units)
        limit = sight.environment.get(names.container_units)
        self.stage.check(f"{names.container_units}={units}", limit, str(units))

    async def _check_devices(self, pod: JsonObject, container: str, card: int) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        listed = await self.cluster.list_devices(namespace, name, container)
        self.stage.command(f"kubectl exec -t {name} -n {namespace} -- ls /dev")
        self.stage.output(listed)
        start = self.vendor.device_nodes.card.format(index="").rpartition("/")[2]
        cards = [f"/dev/{each}" for each in listed.split() if each.removeprefix(start).isdecimal()]
        device = self.vendor.device_nodes.card.format(index=card)
        self.stage.check(f"the container sees {device} and no other card", cards, [device])

    async def show_pods(self) -> None:
        """Show every pod as kubectl does."""
        self.stage.command("kubectl get pod -A")
        self.stage.output(await fetch_table(self.cluster, "/api/v1/pods", with_namespace=True))

    async def show_inspect(self) -> None:
        """Show what the extender says of the node, and check it."""
        path = f"{self.vendor.url_prefix}/inspect/{self.node}"
        self.stage.command(f"curl {self.cluster.extender_url}{path}")
        self.stage.output(render_inspect(await self.cluster.inspect(self.node)))
        await self.check_inspect()

    async def check_inspect(self) -> None:
        """The extender learns of a pod by its own watch, so it may be a moment behind what was just seen here."""
        word = self.vendor.device_word
        wanted = (sum(self.ledger.capacity), sum(self.ledger.used), self.shown)
        document = await self.cluster.inspect(self.node)
        entry = document["nodes"][0]
        found = (entry[f"total{word}"], entry[f"used{word}"], pods_by_card(entry, word))
        what = f'inspect says "total{word}": {wanted[0]}, "used{word}": {wanted[1]} on {self.node}, pod by pod'
        self.stage.check(what, found, wanted)


def pod_spec(container: str, limits: Mapping[str, int]) -> JsonObject:
    """A pod of the manual's image."""
    resources = {"limits": dict(limits)}
    return {"containers": [{"name": container, "image": "cheyang/gpu-player:v2", "resources": resources}]}


def describe_pod(pod: JsonObject | None) -> str:
    """Say how far a pod is, for messages."""
    if pod is None:
        return "it does not exist"
    scheduled = condition_of(pod, "PodScheduled").get("message", "")
    status = pod.get("status", {})
    words = (status.get("reason", ""), status.get("message", ""), scheduled)
    return f"phase {phase_of(pod)!r} node {node_of(pod)!r} {' '.join(filter(None, words))}"


def key_of_subject(event: JsonObject) -> str:
    """What an event is about, as ``namespace/name``."""
    subject = event["involvedObject"]
    return f"{subject.get('namespace', '')}/{subject.get('name', '')}"
