"""What ``--help`` says apart from the flags: the commands, examples, marks and what the command reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gcushare.cli.kubectl import flags
from gcushare.cli.kubectl.marks import Mark, legend_rows
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.runtime.settings.declare import Program
from gcushare.vendors.vendor import Vendor

COMMANDS = {
    "explain": "why a pod has no card, or which card it has and with which pods",
    "top": "memory granted and memory in use, card by card",
    "rightsize": "what workloads ask for, the most they used, and what would be enough",
    "nodes-needed": "how many more nodes the waiting pods need",
}


_REASON = "or refused, not found or failed; the reason is on stderr."


@dataclass(frozen=True, slots=True)
class Names:
    """What the command is called: ``kubectl inspect gcushare`` by people, ``executable`` in $PATH.

    ``is_own``: it was called as ``gcushare inspect``, ``gcushare explain`` and so on, which takes any vendor's cards.
    """

    vendor: Vendor
    is_own: bool = False

    @property
    def word(self) -> str:
        return self.vendor.kubectl_plugin

    @property
    def command(self) -> str:
        return "gcushare inspect" if self.is_own else f"kubectl inspect {self.word}"

    def with_word(self, command: str) -> str:
        """How people type a command of COMMANDS."""
        return f"gcushare {command}" if self.is_own else f"{self.command} {command}"

    @property
    def executable(self) -> str:
        return f"kubectl-inspect-{self.word}"


def program_of(names: Names, command: str) -> Program[Any]:
    """One command by its word, as its ``--help`` shows it; the empty word is the table."""
    if not command:
        return _table(names)
    makers: Mapping[str, Callable[[str], Program[Any]]] = {
        "explain": _explain,
        "top": _top,
        "rightsize": _rightsize,
        "nodes-needed": _nodes_needed,
    }
    return makers[command](names.with_word(command))


def _table(names: Names) -> Program[flags.TableSettings]:
    word, device = names.command, names.vendor.device_word
    cards, which = ("cards", "card") if names.is_own else (f"{device} cards", device)
    by_words = (
        "The cards are those of the vendor whose label the cluster's nodes have; 'kubectl inspect gcushare' and "
        "'kubectl inspect gpushare' show one vendor's."
        if names.is_own
        else "A command, where there is one, is the first word; a node that is called like one is shown by "
        f"'{word} -d NODE'. {names.executable} is the same command without kubectl."
    )
    return Program(
        name=word,
        summary=f"Show who uses which {which}: every node with {cards}, allocated and total memory per card.",
        settings=flags.TableSettings,
        examples=(
            (word, "every node, every card, the cluster's sum"),
            (f"{word} -d node-1", "one node with its pods and their namespaces"),
            (f"{word} -o wide --sort-by free", "models, states and the largest free card, the emptiest node first"),
            (f"watch {word}", "again every two seconds"),
            (f"{word} -d -n team-a -l pool=a100", "one namespace's pods on some nodes"),
            (f"{names.with_word('explain')} team-a/train-7", "why this pod is pending, or where it runs"),
            (f"{word} -o json --source api", "for programs, without asking the extender"),
        ),
        commands=() if names.is_own else tuple(COMMANDS.items()),
        legends=(("Marks behind figures", legend_rows(Mark)),),
        exit_status={FAILED: f"Shown in part, {_REASON}"},
        notes=(
            f"Each mark is explained below the table where it is used. {by_words}\n\n"
            "On a terminal the table has these marks, and below it what is wrong and which pods wait; on a pipe it is, "
            "byte for byte, the one of Aliyun's gpushare, for programs. '-o wide' has the marks on a pipe too. "
            "NO_COLOR and FORCE_COLOR are obeyed.\n\n"
            "Standard error holds warnings and, on a terminal, what was read (the scheduler extender, or the API "
            "server alone). A node whose cards cannot be read is a warning.\n\n"
            "Rights: get and list nodes and pods; get services/proxy in the extender's namespace for its figures; get "
            "pods/proxy for top."
        ),
    )


def _explain(word: str) -> Program[flags.ExplainSettings]:
    return Program(
        name=word,
        summary="Say which card a pod has, since when and with which pods; or why it has none, with numbers: the best "
        "cards for it, kinds of nodes and what each lacks, and what would help.",
        settings=flags.ExplainSettings,
        examples=(
            (f"{word} train-7 -n team-a", "a pod of a namespace"),
            (f"{word} team-a/train-7", "the same"),
            (f"{word} team-a/train-7 -o json", "for programs"),
        ),
        exit_status={DONE: "Explained, also a pod that waits."},
        notes="The numbers are the scheduler extender's own; without it the same rules are applied here to what the "
        "API server says.",
    )


def _top(word: str) -> Program[flags.TopSettings]:
    return Program(
        name=word,
        summary="Show what is granted on every card and what is really in use, as the device plugins read it from "
        "the vendor's library, and flag cards on which more is in use than was granted; and the same for every pod, "
        "where the device plugins run with --pod-use.",
        settings=flags.TopSettings,
        examples=(
            (word, "every card"),
            (f"{word} node-1 -o wide", "one node, with the pods' names"),
            (f"{word} -o json", "in bytes, for programs"),
        ),
        exit_status={FAILED: f"Some plugins did not answer, {_REASON}"},
        notes="Without --pod-use of the device plugins the use is a card's, not a pod's: of several pods on a card "
        "that is over, each may be the one. What the library does not report is shown as '-'.",
    )


def _rightsize(word: str) -> Program[flags.RightsizeSettings]:
    return Program(
        name=word,
        summary="Say of each workload what its pods ask for, the most that one of them used, for how long they were "
        "seen, a request that would be enough, and what that would free. Nothing is changed.",
        settings=flags.RightsizeSettings,
        examples=(
            (word, "every workload, those first that would free most"),
            (f"{word} -n team-a -o json", "for programs"),
        ),
        exit_status={FAILED: f"Some plugins did not answer, {_REASON}"},
        notes="The device plugins keep what each pod used most since they saw it first (--pod-use); a restart of a "
        "plugin begins again, and pods that ended are not counted. The suggestion is 15 % more, in whole units. There "
        "is none before a pod was seen for a day, nor for pods that share claims.",
    )


def _nodes_needed(word: str) -> Program[flags.NodesNeededSettings]:
    return Program(
        name=word,
        summary="Say how many more nodes the waiting pods need, by placing them card by card: first into the room of "
        "present nodes, then on empty nodes. Nothing is changed.",
        settings=flags.NodesNeededSettings,
        examples=(
            (word, "nodes of every class that the cluster has"),
            (f"{word} node-1", "nodes like this one"),
            (f"{word} --add 40x4", "as if 40 more pods of 4 units waited"),
            (f"{word} 8x48 --pods team-a", "nodes of 8 cards with 48 units, for one namespace's pods"),
        ),
        notes="Cards, CPU, memory, nodeSelector, required node affinity and taints are considered; affinity to pods, "
        "topology spread and other resources are not. A new node has the labels and taints of those of its class, or "
        "of the one that is named. Pods with scheduling gates are not counted.",
    )
