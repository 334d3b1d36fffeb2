"""The command lines of a playground cluster: the real programs with simulated cards, and what people type."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from gcushare_playground.plans import ClusterPlan, NodePlan, Place
from gcushare_playground.processes import Command


def extender_command(plan: ClusterPlan, place: Place, port: int = 0) -> Command:
    """``gcushare-scheduler-extender`` against the cluster's API server."""
    return _command(
        place,
        "gcushare-scheduler-extender",
        "gcushare.scheduler_extender",
        *("--vendor", plan.vendor.name, "--kubeconfig", str(place.kubeconfig)),
        *("--listen-address", "127.0.0.1", "--listen-port", str(port), "--log-dir", ""),
        *("--dashboard", plan.dashboard, "--page-port", "0"),
        *plan.extender_flags,
        ready_lines=2,
    )


def plugin_command(plan: ClusterPlan, place: Place, node: NodePlan) -> Command:
    """``gcushare-device-plugin`` of one node, with its simulated cards."""
    root = place.kubelet_dir(node)
    return _command(
        place,
        f"gcushare-device-plugin-{node.name}",
        "gcushare.device_plugin",
        *("--vendor", plan.vendor.name, "--kubeconfig", str(place.kubeconfig), "--node-name", node.name),
        *("--cards", f"simulated:{place.cards_file(node)}", "--memory-unit", plan.unit.name),
        *("--kubelet-dir", str(root), "--cdi-dir", str(root / "cdi")),
        *("--listen-address", "127.0.0.1", "--listen-port", "0", "--log-dir", ""),
        *("--mode", "both" if plan.whole_cards else "memory"),
        *(("--pod-use", "--proc-root", str(place.proc)) if plan.pod_use else ()),
        *plan.plugin_flags,
    )


def inspect_words(plan: ClusterPlan, place: Place, extender_url: str) -> tuple[str, ...]:
    """``kubectl-inspect-gcushare`` (or ``-gpushare``), asking the cluster's extender."""
    return (*inspect_program(plan), "--kubeconfig", str(place.kubeconfig), "--extender-url", extender_url)


def inspect_program(plan: ClusterPlan) -> tuple[str, ...]:
    """The same, given nothing: what it finds with ``$KUBECONFIG`` alone."""
    entry = f"main_{inspect_name(plan)}"
    return (sys.executable, "-c", f"import sys; from gcushare.cli.inspect.__main__ import {entry}; sys.exit({entry}())")


def gcushare_program() -> tuple[str, ...]:
    """``gcushare``, with the interpreter that runs here."""
    return (sys.executable, "-m", "gcushare")


def clean_environ(place: Place) -> dict[str, str]:
    """What a command is given that a person would run here: the cluster, and no colours."""
    return {"KUBECONFIG": str(place.kubeconfig), "NO_COLOR": "1"}


def inspect_name(plan: ClusterPlan) -> str:
    """The word after ``kubectl inspect``."""
    return f"{plan.vendor.device_word.lower()}share"


def port_of(url: str) -> int:
    """The port of an address that a program shows."""
    return urlsplit(url).port or 0


def _command(place: Place, name: str, module: str, *arguments: str, ready_lines: int = 1) -> Command:
    words = (sys.executable, "-m", module, *arguments)
    # A kubeconfig of the person at the keyboard must not change the cluster.
    clean = {"KUBECONFIG": ""}
    return Command(name=name, arguments=words, log_dir=place.logs, environ=clean, ready_lines=ready_lines)
