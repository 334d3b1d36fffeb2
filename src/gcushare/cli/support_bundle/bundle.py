"""``gcushare support-bundle``: collects findings and versions, then objects, the programs' answers, and logs, until the
size limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from gcushare._version import __version__
from gcushare.cli.support_bundle import cut_answers, cut_objects
from gcushare.cli.support_bundle.archive import Archive, new_archive
from gcushare.cli.support_bundle.bundle_settings import BundleSettings
from gcushare.cli.support_bundle.cut_answers import Cut
from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.cli.support_bundle.redact import Redactor, own_words
from gcushare.cli.terminal.findings_text import render_text
from gcushare.cli.terminal.output import to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.diagnosis.checks.registry import examine
from gcushare.cluster.diagnosis.checks.views import requesting_pods
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding
from gcushare.cluster.diagnosis.gather_facts import gather
from gcushare.cluster.programs import (
    ProgramAddress,
    ProgramKind,
    SeenPod,
    main_container,
    proxied_extender_page,
    proxied_pod,
    proxied_service,
)
from gcushare.cluster.reader import AT_ONCE, Reader, ask_all
from gcushare.cluster.rights import Area
from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError
from gcushare.core.wording import counted
from gcushare.kube.clock import SystemClock
from gcushare.kube.resources import PODS, Resource
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.wire.documents.explain import EXPLANATION
from gcushare.wire.documents.inspect import decode_document
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS

_EVENTS: Resource[cut_objects.BundleEvent] = Resource("api/v1", "events", cut_objects.BundleEvent)

_MOST_EVENTS = 2000
_MOST_EXPLAINED = 50
_LOGS_AT_ONCE = 8
_LOG_LINES = 5000
"""The last lines of each container's log."""
_LOG_S = 30.0
_LOG_BYTES = 4 << 20
"""Most of one log: thousands of lines."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A file whose content is one request: its path in the archive, a description, and the function that reads it."""

    file: str
    what: str
    read: Callable[[], Awaitable[bytes]]


@dataclass(slots=True)
class Collector:
    """Fills an archive from one snapshot. What cannot be read is left out with its reason; the rest is collected.

    Two things keep secrets out. Only fields that are known by name and form go in. Text in them that looks like a
    secret, or is known to be one, is masked.
    """

    reader: Reader
    facts: Facts
    archive: Archive
    redactor: Redactor
    names: frozenset[str] = frozenset()

    async def collect(self, findings: Sequence[Finding]) -> None:
        """Fill the archive, the most useful first, so that a size limit cuts off logs and not findings."""
        facts = self.facts
        self.names = cut_answers.known_names(facts)
        # A program may have logged the caller's own token.
        header = await self.reader.client.config.credentials.header()
        own_token = [] if header is None else [header.split()[-1]]
        self.redactor = Redactor([*own_token, *(text for pod in facts.pods for text in cut_objects.secrets_of(pod))])
        files = {Area.PODS: "cluster/pods.json", Area.NODES: "cluster/nodes.json"}
        for unread in facts.unread:
            if unread.part in files:
                self._leave_out(files[unread.part], unread.problem)

        cut = cut_answers.cut_findings(findings, self.names)
        self._add_document("doctor.json", cut_answers.findings_document(facts, cut), "what the doctor found")
        text = render_text(facts, cut, width=100, color=False)
        self.archive.add("doctor.txt", self.redactor.text(text).encode(), "the same for people")
        schedulers = cut_answers.schedulers_document(facts, self.names)
        self._add_document("schedulers.json", schedulers, "schedulers, config managers")

        ours = {pod.metadata.uid for members in facts.programs.values() for pod in members}
        slim = [cut_objects.slim_pod(pod, is_ours=pod.metadata.uid in ours) for pod in facts.pods]
        self._add_items(files[Area.PODS], slim, "pods that ask for cards, carry records or run our programs")
        self.reader.progress("collecting objects")
        self._add_items(files[Area.NODES], [cut_objects.slim_counted(node) for node in facts.nodes], "nodes")
        await self._add_events()

        plugins = [
            page
            for pod in facts.running(ProgramKind.PLUGIN)
            for page in self._node_pages(pod, "plugins", cut_answers.cut_document(PLUGIN_STATUS.read))
        ]
        await self._add_sources("asking device plugins", plugins, AT_ONCE)
        extenders = [page for each in self._extenders() for page in self._extender_pages(*each)]
        await self._add_sources("asking the scheduler extender", extenders, AT_ONCE)
        await self._add_sources("reading logs", list(self._logs()), _LOGS_AT_ONCE)

    async def _add_events(self) -> None:
        nodes = {node.metadata.name for node in self.facts.nodes}
        pods = {(pod.metadata.namespace, pod.metadata.name) for pod in self.facts.pods}

        def concerns(event: cut_objects.BundleEvent) -> bool:
            about = event.involved_object
            return about.name in nodes if about.kind == "Node" else (about.namespace, about.name) in pods

        path, problems = "cluster/events.json", list[str]()
        events: list[cut_objects.BundleEvent] = []
        try:
            events = await self.reader.list_objects(_EVENTS, cut_objects.EVENT.read, problems=problems)
        except GcushareError as failure:
            problems.append(str(failure))
        for problem in problems:
            self._leave_out(path, problem)
        found = sorted(filter(concerns, events), key=lambda each: each.last_seen, reverse=True)
        slim = [cut_objects.slim_event(each) for each in found[:_MOST_EVENTS]]
        self._add_items(path, slim, "events of these nodes and pods, newest first")

    def _node_pages(self, pod: SeenPod, kind: str, cut: Cut) -> Iterator[_Source]:
        endpoint = proxied_pod(self.reader.client, pod)
        folder = f"{kind}/{pod.spec.node_name}/{pod.metadata.name}"
        yield self._page(endpoint, "/status", f"{folder}/status.json", cut)
        yield self._page(endpoint, "/metrics", f"{folder}/metrics.txt", cut_answers.cut_figures)

    def _extender_pages(self, name: str, endpoint: ProgramAddress, metrics: ProgramAddress | None) -> Iterator[_Source]:
        folder = f"extender/{name}"
        yield self._page(endpoint, "/version", f"{folder}/version.txt", cut_answers.cut_version)
        if metrics is not None:
            yield self._page(metrics, "/metrics", f"{folder}/metrics.txt", cut_answers.cut_figures)
        for vendor in self.facts.vendors():
            file = f"{folder}/{vendor.name}-inspect.json"
            yield self._page(endpoint, f"{vendor.url_prefix}/inspect", file, cut_answers.cut_document(decode_document))
            waiting = [each.pod for each in requesting_pods(self.facts, vendor) if not each.pod.is_bound]
            for pod in waiting[:_MOST_EXPLAINED]:
                names = quote(pod.metadata.namespace, safe=""), quote(pod.metadata.name, safe="")
                file = f"{folder}/{vendor.name}-explain/{names[0]}_{names[1]}.json"
                page = f"{vendor.url_prefix}/explain/{names[0]}/{names[1]}"
                yield self._page(endpoint, page, file, cut_answers.cut_document(EXPLANATION.read))

    def _page(self, endpoint: ProgramAddress, path: str, file: str, cut: Cut) -> _Source:
        """A program's answer to ``path``; ``cut`` returns the part that goes in."""

        async def read() -> bytes:
            answer = await self.reader.ask(endpoint, path)
            kept = self.redactor.document(cut(answer, self.names))
            return (kept if isinstance(kept, str) else to_json(kept)).encode()

        return _Source(file, f"its answer to {path}", read)

    def _extenders(self) -> list[tuple[str, ProgramAddress, ProgramAddress | None]]:
        client, service = self.reader.client, self.facts.extender.service
        pods = self.facts.running(ProgramKind.EXTENDER)
        if not pods and service is not None:
            return [("behind-service", proxied_service(client, service), None)]
        return [(pod.metadata.name, proxied_pod(client, pod), proxied_extender_page(client, pod)) for pod in pods]

    async def _add_sources(self, doing: str, sources: Sequence[_Source], at_once: int) -> None:
        """Read and add files in batches, because each dead node takes the whole timeout."""
        for start in range(0, len(sources), at_once):
            self.reader.progress(f"{doing}: {start} of {len(sources)}")
            batch = sources[start : start + at_once]
            for source, content in zip(batch, await ask_all(each.read() for each in batch), strict=True):
                if isinstance(content, GcushareError):
                    self._leave_out(source.file, str(content))
                else:
                    self.archive.add(source.file, content, source.what)

    def _logs(self) -> Iterator[_Source]:
        """The logs of our programs' and kube-scheduler's containers, now and before the last restart; no sidecars."""
        for program in ProgramKind:
            for pod in self.facts.running(program):
                container = main_container(pod)
                if container is None:
                    continue
                yield self._log(pod, container.name, is_previous=False)
                if any(each.restart_count for each in pod.status.container_statuses if each.name == container.name):
                    yield self._log(pod, container.name, is_previous=True)

    def _log(self, pod: SeenPod, container: str, *, is_previous: bool) -> _Source:
        query = {"container": container, "tailLines": str(_LOG_LINES), "limitBytes": str(_LOG_BYTES)}
        if is_previous:
            query["previous"] = "true"
        path = PODS.path(pod.metadata.name, namespace=pod.metadata.namespace, subresource="log")

        async def read() -> bytes:
            body = await self.reader.client.get_raw(f"{path}?{urlencode(query)}", "pods/log", timeout_s=_LOG_S)
            return self.redactor.text(cut_log(body.decode("utf-8", errors="replace"), self.names)).encode()

        ending = ".previous.log" if is_previous else ".log"
        return _Source(f"logs/{pod.metadata.namespace}/{pod.metadata.name}/{container}{ending}", "log", read)

    def _add_items(self, path: str, items: Sequence[cut_objects.JsonObject], what: str) -> None:
        if items or path not in self.archive.left_out:
            self._add_document(path, {"items": list(items)}, what)

    def _add_document(self, path: str, content: dict[str, Any], what: str) -> None:
        self.archive.add(path, to_json(self.redactor.document(content)).encode(), what)

    def _leave_out(self, path: str, why: str) -> None:
        self.archive.left_out[path] = self.redactor.text(own_words(why, self.names))


def run(settings: BundleSettings, process: ProcessContext) -> int:
    """Make a bundle and say where it is; returns the exit code. An incomplete one is a success: its manifest says what
    is missing.

    Raises:
        GcushareError: the API server does not answer, neither nodes nor pods may be read, or the archive cannot be
            written.
    """
    began = SystemClock().now()
    path = settings.file or Path(f"gcushare-support-{began:%Y%m%dT%H%M%SZ}.tar.gz")

    async def make() -> Archive:
        async with (
            open_cluster(settings.kube, process.environ, program="gcushare-support-bundle") as client,
            Screen(process).progress() as progress,
        ):
            with new_archive(path, began) as archive:
                reader = Reader(client, progress)
                facts = await gather(reader, settings.where)
                if not facts.nodes and not facts.pods and not (facts.knows(Area.NODES) and facts.knows(Area.PODS)):
                    unread = [each for each in facts.unread if each.part in (Area.NODES, Area.PODS)]
                    family = ForbiddenError if any(each.lacks_right for each in unread) else RetryableError
                    raise family("; ".join(f"cannot read {each.part.value}: {each.problem}" for each in unread))
                collector = Collector(reader, facts, archive, Redactor())
                await collector.collect(examine(facts))
                archive.finish({"program": f"gcushare support-bundle {__version__}", "node": settings.where.node})
            return archive

    archive = asyncio.run(make())
    missing = f"; {len(archive.left_out)} left out, see MANIFEST.json in it" if archive.left_out else ""
    process.stdout.write(
        f"{path}: {counted(len(archive.entries), 'file')}, {path.stat().st_size} bytes, "
        f"of {began:%Y-%m-%d %H:%M:%S} UTC{missing}\n"
    )
    return DONE
