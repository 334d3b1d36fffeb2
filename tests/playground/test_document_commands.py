"""What the documents show really works: their pods are created, their commands run, their names are what is served.

A fenced block with the word ``playground`` behind its language is tried: YAML is created, shell lines are run in order.
Pods of a block that also says ``pending`` must stay so; all others must run with a record that the node has confirmed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from gcushare.kube.resources import Resource
from gcushare_playground.picture import POD_OBJECTS, condition_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.documents import GUIDES, Block, Document, guide
from tests.fake_proc import FakeProc
from tests.playground.clusters import BIN, Census, listening_url, started

HAS_KUBECTL = shutil.which("kubectl") is not None
RESOURCES: Mapping[str, Resource[dict[str, Any]]] = {
    "Pod": POD_OBJECTS,
    "ResourceQuota": Resource("api/v1", "resourcequotas", dict),
}
ENDPOINT = re.compile(r"`(GET|POST) (\S+)`: ")
METRIC = re.compile(r"`(\w+)` \((\w+)(?:; ([^)]+))?\): ")
LABELS_OF = re.compile(r'"(of a \w+)"[^`]*((?:`\w+`(?:,\s+)?)+)')
"""The labels that the API reference writes once, for all metrics that are of a card or of a pod."""

LISTED = re.compile(r"^(GET|POST) +(/[^\s,]*(?:, /[^\s,]+)*)")


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who follows one document with a cluster at hand."""

    census: Census
    document: Document
    environ: Mapping[str, str]
    saved: dict[str, Block] = field(default_factory=dict)
    """Blocks that the document has the reader save as a file, by its name."""

    async def follow(self) -> int:
        """Try every block; returns how many were tried."""
        blocks = [block for block in self.document.blocks() if block.runs]
        for block in blocks:
            if block.info[0] == "yaml":
                await self._create(block)
            else:
                await self._run(block)
        return len(blocks)

    async def _create(self, block: Block) -> None:
        body: dict[str, Any] = YAML(typ="safe", pure=True).load(block.text)
        file = f"{body['metadata']['name']}.yaml"
        if f"kubectl create -f {file}\n" in self.document.text and file not in self.saved:
            self.saved[file] = block
            return
        await self.census.cluster.client.create(RESOURCES[body["kind"]], body, namespace="default")
        if body["kind"] == "Pod":
            key = f"default/{body['metadata']['name']}"
            await self.census.cluster.pods.until(
                lambda: self._is_pending(key) if "pending" in block.info else self.census.is_assigned(key),
                f"{self.document.name}:{block.line}: {key} is as the document says",
                shown=self.census.describe,
            )

    def _is_pending(self, key: str) -> bool:
        pod = self.census.pods.get(key, {})
        return condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"

    async def _run(self, block: Block) -> None:
        for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
            if found := re.fullmatch(r"kubectl create -f (\S+\.yaml)", line):
                await self._create(self.saved[found[1]])
                continue
            if (words := runnable(line)) is None:
                continue
            process = await asyncio.create_subprocess_exec(
                *("bash", "-euo", "pipefail", "-c", words),
                env=self.environ,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            assert process.returncode == 0, f"{self.document.name}:{number}: {line}\n{output.decode()}"
            assert output, f"{self.document.name}:{number}: {line} printed nothing"


def runnable(line: str) -> str | None:
    """The line as this machine can run it; kubectl's plugins need no kubectl."""
    if not HAS_KUBECTL and line.startswith("kubectl "):
        plugin = re.match(r"kubectl inspect (gcushare|gpushare)\b", line)
        return None if plugin is None else f"kubectl-inspect-{plugin[1]}{line[plugin.end() :]}"
    return line


def environment(census: Census, home: Path) -> dict[str, str]:
    cluster = census.cluster
    (plugin,) = cluster.plugins.values()
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(home),
        "KUBECONFIG": str(cluster.place.kubeconfig),
        "GCUSHARE_EXTENDER_URL": cluster.extender_url,
        "EXTENDER": cluster.extender_url,
        "PAGE": cluster.page_url,
        "PLUGIN": listening_url(plugin),
    }


@pytest.mark.slow
async def test_what_the_documents_show_runs_against_the_playground(tmp_path: Path) -> None:
    # With everything that is off by default, so that every metric of the reference is served.
    flags = ("--pod-use", "--proc-root", str(FakeProc(tmp_path / "proc").root))
    plan = ClusterPlan(nodes=(NodePlan(name="node-1", model="S60"),), plugin_flags=flags)
    async with started(plan) as census:
        environ = environment(census, tmp_path)
        readers = [Reader(census, guide(name), environ) for name in GUIDES]
        # Not one after the other: none of the documents touches what another one made.
        tried = await asyncio.gather(*(reader.follow() for reader in readers))
        assert sum(tried) > 12
        await check_metrics(census, "Metrics of the scheduler extender", environ["PAGE"])
        await check_metrics(census, "Metrics of the device plugin", environ["PLUGIN"])
        await check_endpoints(census, environ)


async def fetch(census: Census, url: str) -> str:
    async with census.cluster.http.get(url) as answer:
        assert answer.status == 200, f"GET {url} was answered {answer.status}"
        return await answer.text()


ONLY_WITH_EVICTIONS = {"gcushare_plugin_over_use_evictions_total", "gcushare_plugin_idle_evictions_total"}
"""Served where an admin turned evictions on; the tests of the alerts see to it there."""


async def check_metrics(census: Census, heading: str, url: str) -> None:
    """Compare a list of the API reference with what the program serves: every name, type and label, nothing more."""
    served = dict(served_metrics(await fetch(census, f"{url}/metrics")))
    found = [METRIC.match(item) for item in guide("api-reference.md").items(heading)]
    reported = {each[1]: (each[2], labels_in(each[3] or "")) for each in found if each is not None}
    assert len(reported) == len(found)
    reported = {name: each for name, each in reported.items() if name not in ONLY_WITH_EVICTIONS}
    assert {name: kind for name, (kind, _) in reported.items()} == {name: kind for name, (kind, _) in served.items()}
    for name, (_, labels) in served.items():
        assert labels is None or labels == reported[name][1], name


def labels_in(words: str) -> set[str]:
    shared = {of: labels for of, labels in LABELS_OF.findall(guide("api-reference.md").prose) if of in words}
    return set(re.findall(r"`(\w+)`", " ".join([words, *shared.values()])))


def served_metrics(text: str) -> Iterator[tuple[str, tuple[str, set[str] | None]]]:
    """Each family's name as queries write it, its type, and its labels where it has samples."""
    for family in text_string_to_metric_families(text):
        if family.name.endswith("_created"):  # when a series began; the library adds it to every counter and histogram
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        yield name, (family.type, labels if family.samples else None)


async def check_endpoints(census: Census, environ: Mapping[str, str]) -> None:
    """Ask every endpoint of the API reference, and find every one that the extender lists there."""
    reference, reported = guide("api-reference.md"), set()
    plugin = environ["PLUGIN"]
    for heading, own, page in (
        ("Endpoints of the scheduler extender", environ["EXTENDER"], environ["PAGE"]),
        ("Endpoints of the device plugin", plugin, plugin),
    ):
        for item in reference.items(heading):
            found = ENDPOINT.match(item)
            assert found is not None, item
            method, path = found.groups()
            reported.add((method, path))
            url = page if path.startswith(("/healthz", "/readyz", "/metrics", "/dashboard")) else own
            real = path.replace("<node>", "node-1").replace("<namespace>", "default").replace("<pod>", "notebook")
            real = real.replace("<vendor>", census.cluster.plan.vendor.name)
            async with census.cluster.http.request(method, url + real) as answer:
                # A stream of events has no end.
                is_stream = answer.content_type == "text/event-stream"
                text = (await answer.content.readline()).decode() if is_stream else await answer.text()
            # A call of the scheduler without its body is malformed, which only an endpoint that exists can say.
            named_in_body = method == "GET" or real.endswith(("/filter", "/bind"))
            assert answer.status == (200 if named_in_body else 400), f"{method} {url}{real}: {answer.status} {text}"
            assert method == "GET" or "arguments" in text, f"{method} {url}{real}: {text}"
    listed = set(listed_endpoints(await fetch(census, environ["EXTENDER"] + "/")))
    assert len(listed) > 8
    assert listed - reported == set()


def listed_endpoints(page: str) -> Iterator[tuple[str, str]]:
    for line in page.splitlines():
        if found := LISTED.match(line):
            first, *others = found[2].split(", ")
            prefix = first.rpartition("/")[0]
            yield found[1], first
            yield from ((found[1], prefix + other) for other in others)
