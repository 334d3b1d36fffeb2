"""What a command of ``kubectl inspect`` runs in: screen, way to the API server, and what to do about an error."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from gcushare.cli.kubectl.flags import (
    ExplainSettings,
    NodesNeededSettings,
    Output,
    RightsizeSettings,
    TableSettings,
    TopSettings,
)
from gcushare.cli.kubectl.help_text import COMMANDS, Names
from gcushare.cli.terminal.output import to_json, to_yaml
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError, Refused
from gcushare.core.wording import counted
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.vendors import VENDORS, VENDORS_BY_NAME, Vendor
from gcushare.wire.dra.claims import claimed_request
from gcushare.wire.nodes import find_vendor
from gcushare.wire.objects import NODE
from gcushare.wire.pods import readable_request

T = TypeVar("T", bound=TableSettings | ExplainSettings | TopSettings | RightsizeSettings | NodesNeededSettings)

MAX_WARNINGS = 10


@dataclass(slots=True)
class Session:
    """What every command works with."""

    names: Names
    screen: Screen
    output: Output
    api: KubeClient
    """The API server that the flags name."""

    @property
    def vendor(self) -> Vendor:
        return self.names.vendor

    def print_document(self, make: Callable[[], object]) -> bool:
        """Print a document as JSON or YAML; False, with nothing printed, if another output was asked for."""
        write = {Output.JSON: to_json, Output.YAML: to_yaml}.get(self.output)
        if write is not None:
            self.screen.print_text(write(make()))
        return write is not None

    def say_source(self, source: Source) -> None:
        """Say on a terminal whose figures were shown. Programs that read both streams would take it for a row."""
        if not self.screen.is_terminal:
            return
        if source.passed_over:
            self.screen.say("note", source.passed_over)
        self.screen.say("source", source.text)

    def warn(self, problems: Sequence[str]) -> int:
        """Report what could not be read; then not everything that was asked for was shown."""
        for problem in problems[:MAX_WARNINGS]:
            self.screen.say("warning", problem)
        if len(problems) > MAX_WARNINGS:
            self.screen.say("warning", f"and {len(problems) - MAX_WARNINGS} more; -o json lists all")
        return FAILED if problems else DONE

    def require_cards(self, snapshot: ClusterSnapshot, name: str | None, *, may_be_empty: bool = False) -> None:
        """Say after a table that no node has cards; refuse a node that was asked for and has none.

        ``may_be_empty``: a table without rows is an answer, as in upstream gpushare; a warning says what is missing,
        and a note if the nodes have another vendor's cards.

        Raises:
            Refused: says why, as far as the node does.
        """
        vendor = self.vendor
        if name is None:
            is_table, has_cards = self.output in (Output.TABLE, Output.WIDE), bool(snapshot.nodes_with_cards())
            if not is_table or (has_cards and not self.names.is_own):
                return
            if snapshot.nodes_of_others:
                self.screen.say("note", _name_others(snapshot))
            elif not has_cards and not may_be_empty:
                scope = "of these nodes has" if snapshot.is_partial else "of the cluster's nodes has"
                self.screen.say(
                    "note",
                    f"none {scope} {vendor.device_word} cards; a node has them once it is labelled "
                    f"{vendor.node_label} and the device plugin runs there",
                )
            return
        state, facts = snapshot.ledger.nodes.get(name), snapshot.node_facts.get(name)
        if state is not None and state.known and (state.cards or facts is None or not facts.problem):
            return
        if facts is not None and facts.problem:
            raise Refused(f"the cards of node {name!r} cannot be read: {facts.problem}")
        missing = (
            f"node {name!r} has no {vendor.device_word} cards: no annotation {vendor.inventory_annotation} and no "
            f"capacity {vendor.memory_resource}; label it with {vendor.node_label} and look whether the device plugin "
            "runs there"
        )
        if not may_be_empty:
            raise Refused(missing)
        self.screen.say("warning", missing)


def run(
    names: Names, act: Callable[[Session, T], Awaitable[int]], settings: T, process: ProcessContext, hints: list[str]
) -> int:
    """Run a command and return its exit code; if it fails, what to do about it is added to ``hints``.

    Raises:
        GcushareError: what the command raised.
    """

    async def work() -> int:
        screen = Screen(process)
        try:
            async with open_cluster(settings.kube, screen.environ, program="kubectl-inspect") as api:
                vendor = await choose_vendor(api, settings) if names.is_own else names.vendor
                session = Session(replace(names, vendor=vendor), screen, settings.show.output, api)
                return await act(session, settings)
        except GcushareError as error:
            if hint := _hint(names, settings, error):
                hints.append(hint)
            raise

    return asyncio.run(work())


async def choose_vendor(api: KubeClient, settings: T) -> Vendor:
    """The vendor of the pod or node that is named; else the first whose label, or plugin's trace, a node has."""
    if isinstance(settings, ExplainSettings):
        namespace, name = settings.pod_key(api.config.namespace)
        with suppress(NotFoundError):  # explain says it
            pod = await api.get(PODS, name, namespace=namespace)
            for vendor in VENDORS:
                if claimed_request(pod, vendor) is not None or readable_request(pod, vendor) != (None, ""):
                    return vendor
    named = getattr(settings, "node", getattr(settings, "like", None))
    with suppress(GcushareError):  # The command says it, or has its answer from the extender.
        if named and (found := find_vendor([await api.get(NODES, named)])):
            return found
    with suppress(ForbiddenError):
        for vendor in VENDORS:
            async with aclosing(api.pages(NODES, Selector(labels=vendor.node_label), page_size=1)) as pages:
                if (await anext(pages)).entries:
                    return vendor
        async with aclosing(api.pages(NODES)) as pages:
            async for page in pages:
                if found := find_vendor([NODE.read(raw) for raw in page.entries]):
                    return found
    return VENDORS[0]


def _name_others(snapshot: ClusterSnapshot) -> str:
    """Say which command shows the cards of nodes that have none of this vendor's."""
    found = [(VENDORS_BY_NAME[name], len(nodes)) for name, nodes in snapshot.nodes_of_others.items()]
    has = " and ".join(f"{counted(nodes, 'node', 'have')} {other.device_word} cards" for other, nodes in found)
    shows = " or ".join(f"'kubectl inspect {other.kubectl_plugin}'" for other, _ in found)
    none = "" if snapshot.nodes_with_cards() else f"no node has {snapshot.vendor.device_word} cards, and "
    return f"{none}{has}: {shows} shows them"


def _hint(names: Names, settings: T, error: GcushareError) -> str:
    """Say what to do; empty if the error itself says it."""
    if isinstance(error, NotFoundError):
        if isinstance(settings, ExplainSettings):
            return "-n names the pod's namespace; 'kubectl get pods -A' lists every pod"
        node = settings.node if isinstance(settings, TableSettings | TopSettings) else ""
        words = difflib.get_close_matches(node or "", COMMANDS, n=1)
        return f"did you mean the command '{names.with_word(words[0])}'?" if words else ""
    return ""
