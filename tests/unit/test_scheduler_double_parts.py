"""The scheduler double's pure parts: its configuration, what pods ask for, its filters, words and scores."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.document import new_config
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.scheduler_config.versions import parse_version
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare_playground.scheduler import parse_scheduler_settings
from gcushare_playground.scheduler.objects import effective_requests

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def extender_entry(**changes: object) -> str:
    entry: dict[str, object] = {"urlPrefix": "http://127.0.0.1:1/x", "filterVerb": "filter", **changes}
    return f"{HEAD}extenders: {msgspec.json.encode([entry]).decode()}"


@pytest.mark.parametrize("version", ["v1.20.0", "v1.23.1", "v1.36.2"])
def test_what_the_config_manager_writes_is_understood(version: str) -> None:
    options = ExtenderOptions(vendor="both", weight=3, timeout=2.5)
    written = ExtenderEntry(url="http://10.0.0.1:32766", options=options)
    (extender,) = parse_scheduler_settings(new_config(written, parse_version(version), ()).text, "config").extenders
    assert extender.url_prefix == "http://10.0.0.1:32766/gcushare-scheduler"
    assert [each.name for each in extender.managed_resources] == [ENFLAME.memory_resource, ALIYUN.memory_resource]
    assert (extender.weight, extender.http_timeout_s, extender.node_cache_capable) == (3, 2.5, True)
    assert (extender.filter_verb, extender.bind_verb, extender.ignorable) == ("filter", "bind", False)


def container(amount: int, **more: object) -> dict[str, Any]:
    return {"resources": {"requests": {"r": str(amount)}}, **more}


@pytest.mark.parametrize(
    ("init", "app", "amount"),
    [
        pytest.param([], [container(2), container(3)], 5, id="containers add up"),
        pytest.param([container(9), container(4)], [container(5)], 9, id="the largest init container counts"),
        pytest.param([container(2, restartPolicy="Always")], [container(5)], 7, id="a sidecar is added"),
        pytest.param([container(2, restartPolicy="Always"), container(6)], [container(5)], 8, id="with a sidecar"),
        pytest.param([container(6), container(2, restartPolicy="Always")], [container(5)], 7, id="before a sidecar"),
    ],
)
def test_a_pod_asks_for_its_peak(init: list[dict[str, Any]], app: list[dict[str, Any]], amount: int) -> None:
    assert effective_requests({"initContainers": init, "containers": app}) == {"r": amount}
