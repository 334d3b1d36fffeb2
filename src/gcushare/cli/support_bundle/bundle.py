"""``gcushare support-bundle``: collects findings, the programs' answers and logs, until the size limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from gcushare._version import __version__
from gcushare.cli.support_bundle import cut_answers
from gcushare.cli.support_bundle.archive import Archive, new_archive
from gcushare.cli.support_bundle.bundle_settings import BundleSettings
from gcushare.cli.support_bundle.cut_answers import Cut
from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.cli.support_bundle.redact import mask_document, mask_text, own_words
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
from gcushare.kube.resources import PODS
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.wire.documents.explain import EXPLANATION
from gcushare.wire.documents.inspect import decode_document
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS

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

    Two things keep secrets out. Only what is known by name and form goes in. Text in it that looks like a secret is
    masked.
    """

    reader: Reader
    facts: Facts
    archive: Archive
    names: frozenset[str]

    async def collect(self, findings: Sequence[Finding]) -> None:
        """Fill the archive, the most useful first, so that a size limit cuts off logs and not findings."""
        facts = self.facts
        cut = cut_answers.cut_findings(findings, self.names)
        self._add_document("doctor.json", cut_answers.findings_document(facts, cut), "what the doctor found")
        schedulers = cut_answers.schedulers_document(facts, self.names)
        self._add_document("schedulers.json", schedulers, "schedulers, config managers")
        plugins = [page for pod in facts.running(ProgramKind.PLUGIN) for page in self._plugin_pages(pod)]
        await self._add_sources("asking device plugins", plugins, AT_ONCE)
        extenders = [page for each in self._extenders() for page in self._extender_pages(*each)]
        await self._add_sources("asking the scheduler extender", extenders, AT_ONCE)
        await self._add_sources("reading logs", list(self._logs()), _LOGS_AT_ONCE)

    def _plugin_pages(self, pod: SeenPod) -> Iterator[_Source]:
        endpoint = proxied_pod(self.reader.client, pod)
        folder = f"plugins/{pod.spec.node_name}/{pod.metadata.name}"
        yield self._page(endpoint, "/status", f"{folder}/status.json", cut_answers.cut_document(PLUGIN_STATUS.read))
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
            kept = mask_document(cut(answer, self.names))
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
            return mask_text(cut_log(body.decode("utf-8", errors="replace"), self.names)).encode()

        ending = ".previous.log" if is_previous else ".log"
        return _Source(f"logs/{pod.metadata.namespace}/{pod.metadata.name}/{container}{ending}", "log", read)

    def _add_document(self, path: str, content: dict[str, Any], what: str) -> None:
        self.archive.add(path, to_json(mask_document(content)).encode(), what)

    def _leave_out(self, path: str, why: str) -> None:
        self.archive.left_out[path] = mask_text(own_words(why, self.names))


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
                collector = Collector(reader, facts, archive, cut_answers.known_names(facts))
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
