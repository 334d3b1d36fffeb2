"""The scenario of claims: the manual's pods, unchanged, on a node whose cards kube-scheduler itself shares."""

from __future__ import annotations

from gcushare.core.wording import counted
from gcushare.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL, SERVE_CLAIMS, SERVE_LABEL
from gcushare_playground.commands import clean_environ, inspect_name, inspect_program
from gcushare_playground.demo.playing import Player, describe_pod
from gcushare_playground.demo.reading import fetch_sight, fetch_table
from gcushare_playground.demo.scenarios import MANUAL_CONTAINER, MANUAL_NAMESPACE, MANUAL_QUARTERS, create_pod
from gcushare_playground.picture import JsonObject, node_of, phase_of
from gcushare_playground.processes import capture

_REFUSED = "0/1 nodes are available: 1 cannot allocate all claims."


async def play_claims(player: Player) -> None:
    """Chapter 4.1 with claims: two pods share card 0, the third gets card 1, the fourth waits and explain says why."""
    stage, ledger = player.stage, player.ledger
    await _bring_up(player)
    card_units = max(size for cards in ledger.capacity.values() for size in cards)
    titles = (
        "A pod as the manual has it: its request becomes a claim, and it gets a part of card 0",
        "A second pod gets the same card: the card in use is filled first",
        "A third pod does not fit on it and gets another card",
        "A fourth pod asks for more than one card has: it stays Pending",
    )
    for number, (quarters, title) in enumerate(zip(MANUAL_QUARTERS, titles, strict=True), start=1):
        stage.step(f"Step {number}. {title}")
        name, units = f"gcushare-pod-{number}", card_units * quarters // 4
        await create_pod(player, f"{MANUAL_NAMESPACE}/{name}", MANUAL_CONTAINER, units)
        if quarters <= 4:
            await _place(player, name, units)
        else:
            await player.tell_refused(f"{MANUAL_NAMESPACE}/{name}", _REFUSED)
    await player.show_cluster()
    stage.step("What an admin asks: why does the pod wait?")
    plan, waiting = player.cluster.plan, f"{MANUAL_NAMESPACE}/gcushare-pod-{len(MANUAL_QUARTERS)}"
    stage.command(f"kubectl inspect {inspect_name(plan)} explain {waiting}")
    text = await capture(*inspect_program(plan), "explain", waiting, environ=clean_environ(player.cluster.place))
    stage.output(text)
    lines = text.splitlines()
    needed, unit = card_units * MANUAL_QUARTERS[-1] // 4, plan.unit.label
    stage.check("explain says that it waits", lines[0].rpartition(": ")[2], "waits")
    most = f"the largest usable card has {card_units} {unit}"
    why = f"by a claim, needs {needed} {unit} in one card; it can never fit: {most}"
    stage.check(f"and why: {why}", lines[1].strip(), why)


async def _bring_up(player: Player) -> None:
    """Start everything in the order of an installation, and check that the cards are offered as devices."""
    cluster, stage = player.cluster, player.stage
    stage.step("The cluster: doubles of API server, kubelet and scheduler; the real plugin and extender")
    await cluster.start_api_server()
    stage.say(f"API server         {cluster.api_url}")
    await cluster.start_kubelets()
    stage.say(f"kubelet            {', '.join(sorted(cluster.nodes.objects))}")
    for node in cluster.plan.nodes:
        stage.command(f"kubectl label node {node.name} {SERVE_LABEL}={SERVE_CLAIMS}")
    stage.command(f"kubectl label namespace {MANUAL_NAMESPACE} {CLAIMS_LABEL}={CLAIMS_ENABLED}")
    await cluster.start_claims(MANUAL_NAMESPACE)
    await cluster.start_extender()
    for child in cluster.programs():
        stage.say(f"{child.name:<40} pid {child.pid}")
    await cluster.start_scheduler()
    stage.say("scheduler          as Kubernetes has it: it calls no extender")
    await cluster.wait_extender_ready()
    stage.command("kubectl get resourceslices")
    stage.output(await fetch_table(cluster, "/apis/resource.k8s.io/v1/resourceslices"))
    slices = await cluster.client.list_all(RESOURCE_SLICES)
    for name, sizes in player.ledger.capacity.items():
        devices = [device for each in slices if each.spec.node_name == name for device in each.spec.devices]
        stage.check(f"{name} offers its {counted(len(sizes), 'card')} as devices", len(devices), len(sizes))


async def _place(player: Player, name: str, units: int) -> None:
    """Wait until a pod runs, and check its claim, what its container was given, and what inspect shows."""
    cluster, stage, claims = player.cluster, player.stage, player.vendor.claims
    key, ((node, card),) = f"{MANUAL_NAMESPACE}/{name}", player.ledger.candidates(units).items()
    await cluster.pods.until(
        lambda: phase_of(cluster.pods.objects.get(key, {})) == "Running",
        f"pod {key} runs",
        deadline_s=60.0,
        shown=lambda: describe_pod(cluster.pods.objects.get(key)),
    )
    await player.show_pods()
    pod: JsonObject = cluster.pods.objects[key]
    stage.check(f"{key} runs on {node}", node_of(pod), node)
    (entry,) = pod["spec"]["resourceClaims"]
    template = f"{claims.template_prefix}-{units}"
    stage.check(f"its request became a claim of template {template}", entry["resourceClaimTemplateName"], template)
    asked = pod["metadata"]["annotations"].get(CLAIMED_UNITS)
    stage.check(f"and it keeps what it asked for: {MANUAL_CONTAINER}={units}", asked, f"{MANUAL_CONTAINER}={units}")
    (made,) = pod["status"]["resourceClaimStatuses"]
    claim = await cluster.client.get(RESOURCE_CLAIMS, made["resourceClaimName"], namespace=MANUAL_NAMESPACE)
    given = [(each.pool, each.device) for each in claim.results_of(claims.driver)]
    stage.check(f"the claim was allocated card {card}", given, [(node, f"card-{card}")])
    player.ledger.take(node, card, units)
    player.shown[node].setdefault(card, {})[name] = units

    names = player.vendor.environment
    sight = await fetch_sight(cluster, MANUAL_NAMESPACE, name, MANUAL_CONTAINER)
    stage.command(f"kubectl logs {name} -n {MANUAL_NAMESPACE}    # what the container was given")
    stage.output(sight.select((names.visible, names.card_units, names.container_units)))
    visible = f"{node}-card-{card}" if player.vendor.visible_by_uuid else str(card)
    for word, expected in ((names.visible, visible), (names.container_units, str(units))):
        stage.check(f"{word}={expected}", sight.environment.get(word), expected)
    await player.show_inspect(node)
