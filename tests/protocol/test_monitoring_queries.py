"""Every query of the dashboards and alerts asks for what the programs really serve: names, labels and their values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import promql_parser as promql
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gcushare.cli.top.rows import DRIVER_SHARE
from gcushare.core.units import GIB
from gcushare.node.over_use.over_use_settings import Action
from gcushare.runtime.settings.serving import ServeSettings
from gcushare_playground.apiserver import FailBefore, Fault
from gcushare_playground.kubelet.dra import ClaimRef
from tests.builders import card
from tests.documents import guide
from tests.extender_objects import node_document, pod_document
from tests.fake_proc import FakeProc
from tests.monitoring import (
    OF_PROMETHEUS,
    TARGET_LABELS,
    Expression,
    LabelError,
    Labels,
    alerts,
    expressions,
    selectors_of,
    variable_queries,
)
from tests.protocol.claims_rig import ClaimsRig
from tests.protocol.extender_rig import ExtenderRig, extender_settings
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.runtime_certificates import Authority, trusting
from tests.protocol.test_extender_claims import replica

pytestmark = pytest.mark.xdist_group("monitoring queries")

EXPRESSIONS = tuple(expressions())


@dataclass(frozen=True, slots=True)
class Served:
    """What the programs serve: every label of a series by its name, and every value of a label."""

    labels: Mapping[str, frozenset[str]]
    values: Mapping[tuple[str, str], frozenset[str]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Served:
        labels: dict[str, set[str]] = {}
        values: dict[tuple[str, str], set[str]] = {}
        for text in texts:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels.setdefault(sample.name, set()).update(sample.labels)
                    for name, value in sample.labels.items():
                        values.setdefault((sample.name, name), set()).add(value)
        return cls(
            {name: frozenset(found) for name, found in labels.items()},
            {key: frozenset(found) for key, found in values.items()},
        )

    def with_targets(self) -> Labels:
        """The series as Prometheus keeps them."""
        served = {name: labels | TARGET_LABELS for name, labels in self.labels.items()}
        return Labels(served | dict(OF_PROMETHEUS)).with_records()


async def scrape_extender(folder: Path) -> str:
    """The metrics of an extender that serves TLS, has answered every call, and failed at one."""
    authority = Authority("server authority")
    cert, key = authority.issue("extender").write(folder)
    serve = ServeSettings(listen_address="127.0.0.1", tls_cert_file=cert, tls_key_file=key)
    async with ExtenderRig(extender_settings(serve=serve), tls=trusting(authority)) as rig:
        await rig.add_nodes(node_document("node-1", offered=[card(0, 16), card(1, 4)]))
        await rig.schedule("a", 10, ["node-1"])
        (large,) = await rig.add_pods(pod_document("large", 8))
        await rig.filter(large, ["node-1"])
        (unlucky,) = await rig.add_pods(pod_document("unlucky", 1))
        rig.api.faults.on(Fault(FailBefore(403, "Forbidden", "no right"), path="/binding", count=1))
        await rig.bind(unlucky, "node-1")
        return (await rig.get("/metrics"))[1]


async def scrape_plugin(proc: Path) -> str:
    """The metrics of a plugin whose library tells everything, with a pod over its grant and one that was refused."""
    use: dict[str, object] = {"used": 3 * GIB, "temperature": 61, "power": 120, "utilization": 40, "processes": {}}
    host = FakeProc(proc)
    evicting = {"over_use": Action.EVICT, "over_use_exempt": ("default",)}
    async with PluginRig(cards=(16, 2), plugin={"pod_use": True, "proc_root": host.root, **evicting}) as rig:
        await rig.run("a", 4, card=0, annotations={"gcushare.io/memory-limit": "5"})
        host.start_in_pod(100, rig.uid("a"))
        rig.write_cards({0: {**use, "processes": {"100": 8 * GIB}, "process_utilization": {"100": 30}}, 1: use})
        rig.bind("b", 14, card=0)
        await rig.until_failed("b")
        last = ("gcushare_card_power_watts", "gcushare_pod_over_use_bytes")
        await rig.until_figures(lambda found: all(map(found.sum, last)))
        return (await rig.get("/metrics"))[1]


async def scrape_claims() -> str:
    """The metrics of a claims driver that has refused a claim, and of an extender that serves claims."""
    async with ClaimsRig() as rig:
        await rig.start()
        await rig.kubelet.prepare(ClaimRef("no-such-uid", "gone"))
        driver = (await rig.get("/metrics"))[1]
        async with replica(rig.api) as extender:
            return driver + await extender.get("/metrics")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    async def scrape() -> tuple[str, str, str]:
        return await asyncio.gather(
            scrape_extender(tmp_path_factory.mktemp("tls")),
            scrape_plugin(tmp_path_factory.mktemp("proc")),
            scrape_claims(),
        )

    return Served.of(asyncio.run(scrape()))


def test_every_expression_names_series_and_labels_that_are_served(served: Served) -> None:
    labels = served.with_targets()
    missing = {each.where: each.shown - labels.of(each.parse()) for each in EXPRESSIONS}
    assert {where: names for where, names in missing.items() if names} == {}


def test_every_value_that_an_expression_asks_for_is_served(served: Served) -> None:
    for expression in EXPRESSIONS:
        for selector in selectors_of(expression.parse()):
            for matcher in selector.matchers.matchers if selector.name not in OF_PROMETHEUS else ():
                values = served.values.get((str(selector.name), matcher.name), frozenset())
                if matcher.op == promql.MatchOp.Equal and matcher.name != "node":
                    assert matcher.value in values, expression.where
                if matcher.op == promql.MatchOp.Re and matcher.value != ".*":
                    assert set(matcher.value.split("|")) - values == set(), expression.where


def test_the_variables_are_found_among_what_is_served(served: Served) -> None:
    queries = dict(variable_queries())
    assert len(queries) == 3
    labels = served.with_targets()
    for where, query in queries.items():
        inner, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(",")
        assert label.strip() in labels.of(Expression(where, inner).parse()), where


def test_every_series_of_the_programs_is_on_a_dashboard_or_in_an_alert(served: Served) -> None:
    """What no one looks at is not worth serving; those that only detail others are named here."""
    asked = {str(selector.name) for each in EXPRESSIONS for selector in selectors_of(each.parse())}
    details = {
        "gcushare_cards",  # the sum of the cards by mode
        "gcushare_extender_request_seconds_count",  # the results say it by result
        "gcushare_watch_streams_total",  # a stream is opened again every few minutes
        "gcushare_watch_events_total",
    }
    whole = {name for name in served.labels if not name.endswith(("_created", "_sum", "_bucket"))}
    assert {name for name in whole if name.startswith("gcushare_")} - asked - details == set()


def test_every_series_of_claims_is_in_the_api_reference(served: Served) -> None:
    whole = {name for name in served.labels if not name.endswith(("_created", "_sum", "_bucket", "_count"))}
    page = guide("api-reference.md").prose
    assert [name for name in whole if name.startswith("gcushare_claims_") and f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("gcushare_nothing", "nothing serves gcushare_nothing", id="a metric that is not there"),
        pytest.param("sum by (vendr) (gcushare_nodes)", "vendr", id="a label that is not there"),
        pytest.param('gcushare_nodes{card="0"}', "card", id="a matcher on no label"),
        pytest.param("gcushare_leader * on (vendor) gcushare_nodes", "vendor", id="a join by a label of one side"),
        pytest.param("sum without (job) (gcushare_nodes)", "say by which labels", id="all labels but one"),
        pytest.param(
            "histogram_quantile(0.9, sum by (verb) (rate(gcushare_extender_request_seconds_bucket[5m])))",
            "le",
            id="a quantile without buckets",
        ),
    ],
)
def test_an_expression_that_asks_for_something_else_is_found(text: str, words: str, served: Served) -> None:
    """The negative control."""
    with pytest.raises(LabelError, match=words):
        served.with_targets().of(Expression("here", text).parse())


def test_the_alert_takes_off_the_same_share_for_the_driver_as_inspect_does() -> None:
    (rule,) = [rule for rule in alerts() if rule["alert"] == "GcushareCardUsesMoreThanGranted"]
    assert rule["expr"].count(f"gcushare_card_memory_bytes / {DRIVER_SHARE}") == 2
