"""The scenario of idle memory: a forgotten notebook holds a card that a training waits for, and gives it back."""

from __future__ import annotations

import json

from gcushare.wire.annotations import IDLE_SINCE, WHEN_IDLE
from gcushare.wire.contracts import SCALE_DOWN_DISABLED
from gcushare_playground.commands import clean_environ, gcushare_program
from gcushare_playground.demo.admin_commands import show_top
from gcushare_playground.demo.playing import NAMESPACE, NO_WORDS, Player, key_of_subject
from gcushare_playground.demo.settings import IDLE_S
from gcushare_playground.processes import capture

_PID = 4242
_HOST = "pid:[4026531836]"
"""The machine's own process namespace: in any other the plugin takes no process ids."""


async def play_idle(player: Player) -> None:
    """One pod computes, one does not and says that it may go, one does not and stays, and one waits for memory."""
    units = player.ledger.largest
    stage, cluster, memory = player.stage, player.cluster, player.vendor.memory_resource
    _write_processes(player, {})
    stage.step("Step 1. Three pods take the node's memory: one computes, two do not")
    for name, wish in (("training", ""), ("forgotten", "evict"), ("on-call", "keep")):
        await player.create(name, {memory: units}, annotations={WHEN_IDLE: wish} if wish else NO_WORDS)
        await player.place(f"{NAMESPACE}/{name}", units)
    uid = cluster.pods.objects[f"{NAMESPACE}/training"]["metadata"]["uid"]
    _write_processes(player, {_PID: uid})
    await cluster.show_programs()
    stage.step("Step 2. A fourth pod finds no room")
    await player.create("next-training", {memory: units})
    await player.wait_refused(f"{NAMESPACE}/next-training")
    stage.step(f"Step 3. After {IDLE_S}s without a process on its card each idle pod says since when, and what follows")
    for name in ("forgotten", "on-call"):
        await _show_idle(player, name)
    await show_top(player)
    await _show_rightsize(player)
    node = player.node
    kept = cluster.nodes.objects[node]["metadata"]["annotations"].get(SCALE_DOWN_DISABLED)
    stage.check(f"Cluster Autoscaler must not remove {node}, whose cards pods hold", kept, "true")
    stage.step("Step 4. The pod that may go is evicted, and the one that waited gets its memory")
    await cluster.pods.until(lambda: f"{NAMESPACE}/forgotten" not in cluster.pods.objects, "the eviction")
    found = await player.wait_assigned(f"{NAMESPACE}/next-training")
    await player.show_pods()
    stage.check("next-training runs", found["status"]["phase"], "Running")
    kept = cluster.pods.objects[f"{NAMESPACE}/on-call"]["metadata"]["annotations"]
    stage.check("on-call stays, with since when it is idle", IDLE_SINCE in kept, True)
    busy = cluster.pods.objects[f"{NAMESPACE}/training"]["metadata"]["annotations"]
    stage.check("training was never called idle", IDLE_SINCE in busy, False)


async def _show_rightsize(player: Player) -> None:
    """Show what pods asked for and the most that they used: nothing is suggested before a day has passed."""
    player.stage.command("gcushare rightsize")
    text = await capture(*gcushare_program(), "rightsize", environ=clean_environ(player.cluster.place))
    player.stage.output(text)
    for name in ("training", "forgotten", "on-call"):
        player.stage.check(f"rightsize names {name}", f"{NAMESPACE}/{name} " in text, True)


async def _show_idle(player: Player, name: str) -> None:
    """Wait until a pod is called idle, and show the words."""
    events = player.cluster.events

    def words() -> list[str]:
        found = (each for each in events.objects.values() if key_of_subject(each) == f"{NAMESPACE}/{name}")
        return [each["message"] for each in found if each["reason"] == "Idle"]

    await events.until(lambda: bool(words()), f"{name} is called idle", deadline_s=60.0)
    player.stage.command(f"kubectl describe pod {name}")
    player.stage.output(f"Events:\n  Normal  Idle  gcushare-device-plugin  {words()[0]}")


def _write_processes(player: Player, owners: dict[int, str]) -> None:
    """Have the host's processes be these, by id and pod uid, all on card 0 of every node."""
    plan, place = player.cluster.plan, player.cluster.place
    namespaces = place.proc / "self" / "ns"
    namespaces.mkdir(parents=True, exist_ok=True)
    if not (namespaces / "pid").is_symlink():
        (namespaces / "pid").symlink_to(_HOST)
    for pid, uid in owners.items():
        folder = place.proc / str(pid)
        folder.mkdir(exist_ok=True)
        group = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        (folder / "cgroup").write_text(
            f"0::/kubepods.slice/kubepods-burstable.slice/{group}/cri-containerd-main.scope\n"
        )
        (folder / "stat").write_text(f"{pid} (python3) S " + " ".join(["0"] * 18) + " 4242" + " 0" * 30 + "\n")
    for node in plan.nodes:
        document = json.loads(node.cards_document(used={}))
        for index, card in enumerate(document["cards"]):
            card["processes"] = {str(pid): 1 << 30 for pid in owners} if index == 0 else {}
            card["used"] = sum(card["processes"].values())
        place.cards_file(node).write_text(json.dumps(document))
