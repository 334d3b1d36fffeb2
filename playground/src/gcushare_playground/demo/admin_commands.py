"""What an admin asks of the played cluster: why a pod waits, what cards are really doing, whether anything is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.core.wording import counted
from gcushare_playground.cluster import Cluster
from gcushare_playground.commands import clean_environ, gcushare_program, inspect_name, inspect_program
from gcushare_playground.demo.playing import Player
from gcushare_playground.picture import phase_of, poll_until
from gcushare_playground.processes import capture

_WARNED = 3
"""The doctor's exit status where its worst finding is a warning."""
_USE_METRIC = "gcushare_card_memory_used_bytes{"


@dataclass(frozen=True, slots=True)
class AdminCommand:
    """A command line as a person types it, its program, and the exit status that it must have here."""

    line: str
    program: tuple[str, ...]
    code: int = 0

    async def run(self, environ: Mapping[str, str]) -> str:
        """Run it; returns what it prints.

        Raises:
            ProcessError: it ends with another status.
        """
        return await capture(*self.program, environ=environ, expected=self.code)


def admin_commands(cluster: Cluster) -> dict[str, AdminCommand]:
    """The commands by their words; they need nothing but ``$KUBECONFIG``."""
    plan, waiting = cluster.plan, _waiting_pod(cluster)
    node, inspect = plan.nodes[0].name, f"kubectl inspect {inspect_name(plan)}"
    ours, theirs = gcushare_program(), inspect_program(plan)
    has_kept = any(each.driver_bytes for each in plan.nodes)
    cards = ("cards", node, *(("-o", "wide") if has_kept else ()))
    found = {
        "explain": AdminCommand(f"{inspect} explain {waiting}", (*theirs, "explain", waiting)),
        "top": AdminCommand(f"{inspect} top", (*theirs, "top")),
        "cards": AdminCommand(" ".join(("gcushare", *cards)), (*ours, *cards)),
        "doctor": AdminCommand("gcushare doctor", (*ours, "doctor"), _WARNED),
    }
    # The others look at what device plugins report.
    words = ("explain",) if cluster.serves_claims else tuple(found)
    return {word: found[word] for word in words if waiting or word != "explain"}


async def show_admin_commands(player: Player) -> None:
    """Run the commands with the cluster's kubeconfig alone, show what they print, and check it."""
    cluster, stage = player.cluster, player.stage
    stage.step("What an admin asks: why does a pod wait, what are the cards doing, is anything wrong?")
    stage.say("The programs now stand in the API server as the charts install them, and the cards report their use.")
    over = _use_memory(player)
    await asyncio.gather(cluster.show_programs(), _wait_for_use(cluster))
    commands, environ = admin_commands(cluster), clean_environ(cluster.place)
    reported = await asyncio.gather(*(command.run(environ) for command in commands.values()))
    for (word, command), text in zip(commands.items(), reported, strict=True):
        stage.command(command.line)
        stage.output(text)
        _CHECKS[word](player, text, over)


async def show_top(player: Player) -> None:
    """Show what pods really use, as an admin asks for it."""
    command = admin_commands(player.cluster)["top"]
    player.stage.command(command.line)
    player.stage.output(await command.run(clean_environ(player.cluster.place)))


def _check_explain(player: Player, text: str, _over: str) -> None:
    player.stage.check("explain says that it waits", text.splitlines()[0].rpartition(": ")[2], "waits")


def _check_top(player: Player, text: str, over: str) -> None:
    rows = [line for line in text.splitlines() if line.split()[:1] and line.split()[0] == player.node]
    cards = len(player.ledger.capacity)
    player.stage.check(f"top has {counted(cards, 'line')}, one for each card", len(rows), cards)
    flagged = [" ".join(row.split()[:2]) for row in rows if "over by" in row]
    player.stage.check(f"and flags the card on which more is used than was granted: {over}", flagged, [over])


def _check_cards(player: Player, text: str, _over: str) -> None:
    held = sorted({pod for pods in player.shown.values() for pod in pods})
    player.stage.check(f"cards shows {', '.join(held)}", [pod for pod in held if pod in text], held)
    if any(each.driver_bytes for each in player.cluster.plan.nodes):
        kept = any(line.split()[-2:-1] == ["0.4"] for line in text.splitlines())
        player.stage.check("and that the driver keeps 0.4 GiB of a card for itself", kept, True)


def _check_doctor(player: Player, text: str, _over: str) -> None:
    found = [line.split()[:2] for line in text.splitlines() if line.split()[:1] in (["WARNING"], ["ERROR"])]
    others = [each for each in found if each != ["WARNING", "pod-never-fits"]]  # Only once that pod has waited 30 s.
    what = "doctor finds that no one keeps records from being forged here, and nothing else but a pod that waits"
    player.stage.check(what, others, [["WARNING", "policy-missing"]])


_CHECKS = {"explain": _check_explain, "top": _check_top, "cards": _check_cards, "doctor": _check_doctor}


def _waiting_pod(cluster: Cluster) -> str:
    """A pod that no node was found for, empty where every pod runs."""
    found = sorted(key for key, pod in cluster.pods.objects.items() if phase_of(pod) == "Pending")
    return found[0] if found else ""


def _use_memory(player: Player) -> str:
    """Have the cards report memory in use: three quarters of what was granted, and on one card more than all of it.

    Returns:
        That card's node and index, as ``top`` writes them.
    """
    plan, over, used = player.cluster.plan, "", {}
    (node,) = plan.nodes
    for index, units in enumerate(player.ledger.used):
        granted, size = plan.unit.bytes_of(units), node.card_bytes[index]
        used[index] = granted * 3 // 4
        if not over and 0 < granted < size * 7 // 8:
            used[index], over = (granted + size) // 2, f"{node.name} {index}"
    player.cluster.place.cards_file(node).write_bytes(node.cards_document(used=used))
    return over


async def _wait_for_use(cluster: Cluster) -> None:
    """Wait until every plugin has looked at its cards."""

    async def look() -> str | None:
        silent = []
        for name, url in cluster.plugin_urls.items():
            async with cluster.http.get(f"{url}/metrics") as answer:
                if _USE_METRIC not in await answer.text():
                    silent.append(name)
        return f"nothing of {', '.join(silent)}" if silent else None

    await poll_until(look, "the plugins tell what their cards use")
