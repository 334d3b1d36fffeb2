"""The scenario of claims: the manual's pods, unchanged, on a node whose cards kube-scheduler itself shares."""

from __future__ import annotations

from functools import partial

from gcushare.core.wording import counted
from gcushare.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL, SERVE_CLAIMS, SERVE_LABEL
from gcushare_playground.demo.manual import MANUAL_CONTAINER, MANUAL_NAMESPACE, MANUAL_QUARTERS, play_quarters
from gcushare_playground.demo.playing import Player, describe_pod
from gcushare_playground.demo.reading import fetch_table
from gcushare_playground.picture import JsonObject, node_of, phase_of

_REFUSED = "0/1 nodes are available: 1 cannot allocate all claims."


async def play_claims(player: Player) -> None:
    """Chapter 4.1 with claims: two pods share card 0, the third gets card 1, the fourth waits and explain says why."""
    await _bring_up(player)
    titles = (
        "A pod as the manual has it: its request becomes a claim, and it gets a part of card 0",
        "A second pod gets the same card: the card in use is filled first",
        "A third pod does not fit on it and gets another card",
        "A fourth pod asks for more than one card has: it stays Pending",
    )
    await play_quarters(player, titles, partial(_place, player), partial(_refuse, player))
    player.stage.step("What an admin asks: why does the pod wait?")
    lines = await player.show_explain(f"{MANUAL_NAMESPACE}/gcushare-pod-{len(MANUAL_QUARTERS)}")
    card_units = player.ledger.largest
    needed, unit = card_units * MANUAL_QUARTERS[-1] // 4, player.cluster.plan.unit.label
    player.stage.check("explain says that it waits", lines[0].rpartition(": ")[2], "waits")
    most = f"the largest usable card has {card_units} {unit}"
    why = f"by a claim, needs {needed} {unit} in one card; it can never fit: {most}"
    player.stage.check(f"and why: {why}", lines[1].strip(), why)


async def _bring_up(player: Player) -> None:
    """Start everything in the order of an installation, and check that the cards are offered as devices."""
    cluster, stage = player.cluster, player.stage
    await player.start_kubernetes("plugin and extender")
    stage.command(f"kubectl label node {player.node} {SERVE_LABEL}={SERVE_CLAIMS}")
    stage.command(f"kubectl label namespace {MANUAL_NAMESPACE} {CLAIMS_LABEL}={CLAIMS_ENABLED}")
    await cluster.start_claims(MANUAL_NAMESPACE)
    await cluster.start_extender()
    await player.start_scheduler("as Kubernetes has it: it calls no extender")
    await cluster.wait_extender_ready()
    stage.command("kubectl get resourceslices")
    stage.output(await fetch_table(cluster, "/apis/resource.k8s.io/v1/resourceslices"))
    slices = await cluster.client.list_all(RESOURCE_SLICES)
    devices, cards = [device for each in slices for device in each.spec.devices], len(player.ledger.capacity)
    stage.check(f"{player.node} offers its {counted(cards, 'card')} as devices", len(devices), cards)


async def _refuse(player: Player, key: str, _units: int) -> None:
    await player.tell_refused(key, _REFUSED)


async def _place(player: Player, key: str, units: int) -> None:
    """Wait until a pod runs, and check its claim, what its container was given, and what inspect shows."""
    cluster, stage, claims = player.cluster, player.stage, player.vendor.claims
    node, card = player.node, player.ledger.card_for(units)
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
    player.take(pod["metadata"]["name"], card, units)

    await player.show_part(pod, MANUAL_CONTAINER, card, units)
    await player.show_inspect()
