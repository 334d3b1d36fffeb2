"""GiB-hours as Prometheus itself records them, against figures worked out by hand; and the documented queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.charts import Object
from tests.documents import guide
from tests.monitoring import DASHBOARDS, RULE_FILES, needs_promtool, panels_of, read_dashboard, run_promtool

pytestmark = needs_promtool

(USAGE,) = (path for path in RULE_FILES if path.stem == "usage")
_GIB = 2**30


def _of_pod(metric: str, pod: str, values: str, *, vendor: str = "enflame", card: int = 0, job: str = "once") -> Object:
    """A series of a pod ``NAMESPACE/NAME``; ``values`` in GiB, in promtool's notation, a sample a minute."""
    namespace, name = pod.split("/")
    labels = {"vendor": vendor, "node": "node-1", "card": card, "job": job}
    labels |= {"pod_namespace": namespace, "pod_name": name}
    shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
    sizes = [f"{int(size) * _GIB}x{times}" for size, _, times in (each.partition("x") for each in values.split())]
    return {"series": f"{metric}{{{shown}}}", "values": f"{' '.join(sizes)} stale"}


_granted = partial(_of_pod, "gcushare_pod_granted_bytes")
_used = partial(_of_pod, "gcushare_pod_memory_used_bytes")


def _label(pod: str, value: str, values: str = "1x150") -> Object:
    namespace, name = pod.split("/")
    series = f'kube_pod_labels{{namespace="{namespace}",pod="{name}",uid="u",label_team="{value}"}}'
    return {"series": series, "values": values}


# 0x59 are 60 samples: an hour.
SERIES = [
    # 4 GiB for an hour, read by two jobs, with a second value of the label for a while: 4 GiB-hours of red.
    _granted("lab/a", "4x59"),
    _granted("lab/a", "4x59", job="again"),
    _label("lab/a", "red"),
    _label("lab/a", "blue", "_x20 1x10 stale"),
    # 3 GiB of each of two cards for half an hour: 3 of red.
    _granted("lab/b", "3x29"),
    _granted("lab/b", "3x29", card=1),
    _label("lab/b", "red"),
    # Of one namespace, and without the label: 2 GiB for an hour and a half are 3.
    _granted("lab/c", "2x89"),
    # Another vendor's cards: 8 for half an hour and then 16 for one are 20 of blue.
    _granted("ml/d", "8x29 16x59", vendor="aliyun"),
    _label("ml/d", "blue"),
    # Use: 1 GiB for half an hour and 3 for another are 2 of red. A pod that was granted nothing uses 1 GiB-hour.
    _used("lab/a", "1x29 3x29"),
    _used("lab/e", "1x59"),
]
GRANTED = {("enflame", "lab", "red"): 7, ("enflame", "lab", ""): 3, ("aliyun", "ml", "blue"): 20}
USED = {("enflame", "lab", "red"): 2, ("enflame", "lab", ""): 1}


def complaints(folder: Path, series: list[Object], queries: Mapping[str, Mapping[str, float]]) -> str:
    """What promtool says of queries whose results after 150 minutes should be, by labels, these to a thousandth.

    Nothing if they are.
    """
    tests = [
        {
            "expr": f"round({expr}, 0.001)",
            "eval_time": "150m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
        }
        for expr, samples in queries.items()
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": tests}
    file = folder / "tests.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"rule_files": [str(USAGE)], "evaluation_interval": "1m", "tests": [test]}))
    return run_promtool("test", file)


def _samples(found: Mapping[tuple[str, str, str], float]) -> dict[str, float]:
    # Prometheus shows no label that is empty.
    return {
        f'{{vendor="{vendor}",pod_namespace="{namespace}"' + (f',label="{label}"}}' if label else "}"): value
        for (vendor, namespace, label), value in found.items()
    }


def _of_dashboard() -> tuple[str, ...]:
    """The table's queries of what was granted and used, of the three hours before."""
    panels = [panel for path in DASHBOARDS for panel in panels_of(read_dashboard(path))]
    (panel,) = [panel for panel in panels if panel["title"] == "GiB-hours this month"]
    texts = [target["expr"].replace("$vendor", ".*").replace("$__range", "3h") for target in panel["targets"]]
    return tuple(texts)


def test_a_months_table_has_the_gib_hours_that_pods_were_granted_and_used_until_they_ended(tmp_path: Path) -> None:
    granted, used, share = _of_dashboard()
    shares = {key: round(USED[key] / GRANTED[key], 3) for key in USED}
    wanted = {granted: _samples(GRANTED), used: _samples(USED), share: _samples(shares)}
    assert complaints(tmp_path, SERIES, wanted) == ""


def test_without_kube_state_metrics_gib_hours_are_counted_by_namespace(tmp_path: Path) -> None:
    granted, *_ = _of_dashboard()
    series = [each for each in SERIES if not each["series"].startswith("kube_pod_labels")]
    wanted = {("enflame", "lab", ""): 10, ("aliyun", "ml", ""): 20}
    assert complaints(tmp_path, series, {granted: _samples(wanted)}) == ""


def test_a_wrong_figure_is_found(tmp_path: Path) -> None:
    """The negative control."""
    granted, *_ = _of_dashboard()
    wrong = _samples(GRANTED | {("enflame", "lab", "red"): 11})  # the pod that is read twice, counted twice
    assert "FAILED" in complaints(tmp_path, SERIES, {granted: wrong})


def test_the_documented_query_divides_what_cards_cost_by_what_pods_hold_of_them(tmp_path: Path) -> None:
    (query,) = [block.text for block in guide("admin-guide.md").blocks() if block.info[:1] == ("promql",)]
    card = 'vendor="enflame",node="node-1",card="0",uuid="u",model="m",job="plugins"'
    series = [
        # Half of a card of 16 GiB for an hour at 2.00, and a quarter for two hours: 1.00 each.
        _granted("lab/a", "8x59"),
        _granted("ml/b", "4x119"),
        {"series": f"gcushare_card_memory_bytes{{{card}}}", "values": f"{16 * _GIB}x150"},
        {"series": 'node_gpu_hourly_cost{node="node-1",instance="node-1",provider_id="p"}', "values": "2x150"},
    ]
    wanted = {'{pod_namespace="lab"}': 1.0, '{pod_namespace="ml"}': 1.0}
    assert complaints(tmp_path, series, {" ".join(query.split()): wanted}) == ""
