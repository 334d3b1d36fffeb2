"""The files of Aliyun's gpushare under their own names: what a reader of its instructions applies with kubectl."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, extender_entry
from gcushare.config_manager.scheduler_config.versions import ConfigFormat, parse_format, parse_version
from gcushare.vendors import ALIYUN
from tests.charts import DEPLOY, load_objects, load_yaml
from tests.unit.gpushare_scheduler import PUBLISHED_CONFIG

FILES = DEPLOY / "manifests" / "gpushare"
ADDRESS = "http://192.168.233.101:32766"


def objects(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in load_objects((FILES / name).read_text())}


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("scheduler-policy-config.json", ["v1.19.0", "v1.20.2", "v1.22.0"]),
        ("scheduler-policy-config.yaml", ["v1.22.0", "v1.23.1", "v1.27.0"]),
        ("scheduler-config-v1.yaml", ["v1.25.0", "v1.36.2"]),
    ],
)
def test_a_scheduler_configuration_has_the_entry_that_the_config_manager_writes(name: str, versions: list[str]) -> None:
    found = load_yaml((FILES / "config" / name).read_text())
    written = parse_format(found["apiVersion"], found["kind"])
    assert all(written.is_read_by(parse_version(version)) for version in versions)
    assert found["extenders"] == [
        extender_entry(ExtenderEntry(url=ADDRESS, options=ExtenderOptions(vendor="aliyun")), written)
    ]
    if written is not ConfigFormat.POLICY:
        assert found["clientConnection"] == {"kubeconfig": "/etc/kubernetes/kube-scheduler.kubeconfig"}


def test_every_published_line_of_the_configuration_is_there_in_its_order() -> None:
    lines = iter((FILES / "config" / "scheduler-policy-config.yaml").read_text().splitlines())
    assert [line for line in PUBLISHED_CONFIG.splitlines() if line not in lines] == []


def test_pods_of_the_names_that_people_look_for_come_of_it() -> None:
    extender = objects("config/gpushare-schd-extender.yaml")
    assert ("Deployment", "gpushare-schd-extender") in extender
    assert ("DaemonSet", "gpushare-device-plugin-ds") in objects("device-plugin-ds.yaml")
    names = {name for _, name in [*extender, *objects("device-plugin-rbac.yaml")]}
    assert "gpushare-device-plugin-ds" in names
    assert not [name for name in names if name.startswith("gcushare-config-manager")]


def test_what_upstreams_labels_select_is_found() -> None:
    extender = objects("config/gpushare-schd-extender.yaml")
    plugin = objects("device-plugin-ds.yaml")["DaemonSet", "gpushare-device-plugin-ds"]
    service = extender["Service", "gcushare-scheduler-extender"]
    of_plugin = {"app": "gpushare", "component": "gpushare-device-plugin", "name": "gpushare-device-plugin-ds"}
    of_extender = {"app": "gpushare", "component": "gpushare-schd-extender"}
    for found, expected in (
        (plugin["spec"]["template"], of_plugin),
        (extender["Deployment", "gpushare-schd-extender"]["spec"]["template"], of_extender),
        (service, of_extender),
    ):
        assert expected.items() <= found["metadata"]["labels"].items()


def test_the_extender_is_reached_at_every_nodes_address_on_the_published_port() -> None:
    found = objects("config/gpushare-schd-extender.yaml")
    service = found["Service", "gcushare-scheduler-extender"]
    assert (service["spec"]["type"], service["spec"]["ports"][0]["nodePort"]) == ("NodePort", 32766)
    pods = found["Deployment", "gpushare-schd-extender"]["spec"]["template"]["metadata"]["labels"]
    selector = service["spec"]["selector"]
    # The replica that leads gives this label to its pod.
    assert selector.pop("gcushare.io/leads") == "gcushare-scheduler-extender"
    assert selector.items() <= pods.items()


def test_the_plugin_runs_on_nodes_with_the_published_label_and_counts_gib() -> None:
    spec = objects("device-plugin-ds.yaml")["DaemonSet", "gpushare-device-plugin-ds"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"gpushare": "true", "kubernetes.io/os": "linux"}
    assert {"--vendor=aliyun", "--memory-unit=GiB"} <= set(spec["containers"][0]["args"])
    assert ("ServiceAccount", spec["serviceAccountName"]) in objects("device-plugin-rbac.yaml")


def test_the_sample_is_the_published_one() -> None:
    (sample,) = objects("samples/1.yaml").values()
    assert (sample["kind"], sample["metadata"]["name"], sample["spec"]["replicas"]) == ("Deployment", "binpack-1", 1)
    (container,) = sample["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "cheyang/gpu-player:v2"
    assert container["resources"]["limits"] == {ALIYUN.count_resource: 1, ALIYUN.memory_resource: 5}
