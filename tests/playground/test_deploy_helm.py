"""The charts in the hands of a real helm: installed, upgraded, rolled back and uninstalled, and what that leaves."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import PodRecord, encode_record
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.charts import HELM, NAMESPACE, UMBRELLA_CHART
from tests.playground.deploy_rig import (
    MANAGER,
    Site,
    config_manager,
    control_plane_node,
    needs_tools,
    started_site,
    until_applied,
)
from tests.unit.apiserver_objects import pod

pytestmark = [needs_tools, pytest.mark.slow]

EXTENDER = "gcushare-scheduler-extender"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with started_site(tmp_path) as running:
        running.server.registry.put(control_plane_node("n1", **{"enflame.com/gcushare": "true"}))
        yield running


def data_of(site: Site) -> dict[str, str]:
    data: dict[str, str] = site.get("configmaps", MANAGER)["data"]
    return data


def change(site: Site, plural: str, name: str, fields: JsonObject, *, status_only: bool = False) -> None:
    key = Key(NAMESPACE if BY_NAME[plural].namespaced else "", name)
    site.server.registry.update(BY_NAME[plural], key, lambda obj: {**obj, **fields}, status_only=status_only)


async def test_one_command_installs_everything(site: Site) -> None:
    said = await site.helm("install", "gcushare", UMBRELLA_CHART)
    assert "STATUS: deployed" in said
    assert "kubectl label node NODE enflame.com/gcushare=true" in said
    assert site.names("daemonsets.apps") == {MANAGER, "gcushare-device-plugin"}
    assert site.names("deployments.apps") == {EXTENDER}
    assert {"gcushare-device-plugin", EXTENDER} <= site.names("clusterroles.rbac.authorization.k8s.io")


async def test_upgrades_and_rollbacks_keep_address_certificates_reports_and_set_the_wish_back(site: Site) -> None:
    await site.helm("install", "gcushare", UMBRELLA_CHART)
    address = site.get("services", EXTENDER)["spec"]["clusterIP"]
    certificates = {"ca.crt": "YQ==", "tls.key": "Yg=="}
    change(site, "secrets", f"{EXTENDER}-verbs", {"data": certificates})
    reports = {"node.n1": '{"state": "applied", "reason": "a \\"word\\": #1"}', "node.1e3": "on"}
    change(site, "configmaps", MANAGER, {"data": {"mode": "recover", **reports}})
    for words in (
        ("upgrade", "gcushare", UMBRELLA_CHART, "--set", "global.vendor=both"),
        ("rollback", "gcushare", "1"),
    ):
        await site.helm(*words)
        assert site.get("services", EXTENDER)["spec"]["clusterIP"] == address
        assert site.get("secrets", f"{EXTENDER}-verbs")["data"] == certificates
        assert data_of(site) == {"mode": "apply", **reports}
        certificates["ca.crt"] = "eA=="
        change(site, "secrets", f"{EXTENDER}-verbs", {"data": certificates})
        change(site, "configmaps", MANAGER, {"data": {"mode": "recover", **reports}})
    await site.helm("rollback", "gcushare", "2")
    assert site.get("secrets", f"{EXTENDER}-verbs")["data"] == certificates
    assert site.names("daemonsets.apps") == {MANAGER, "gcushare-device-plugin", "gcushare-device-plugin-aliyun"}


async def test_an_upgrade_that_takes_the_config_managers_away_is_refused_until_every_node_has_recovered(
    site: Site,
) -> None:
    leave = ("upgrade", "gcushare", UMBRELLA_CHART, "--namespace", NAMESPACE)
    mode = ("--set", "gcushare-scheduler-extender-chart.scheduler.mode=none")
    await site.helm("install", "gcushare", UMBRELLA_CHART)
    reports = {"node.n1": '{"state": "applied", "reason": ""}', "node.gone": '{"state": "applied", "reason": ""}'}
    change(site, "configmaps", MANAGER, {"data": {"mode": "apply", **reports}})
    refused = await site.run(HELM, *leave, *mode)
    assert refused.code == 1
    assert 'scheduler.mode "none"' in refused.errors
    assert "n1 is applied. Run" in refused.errors, "a node that is gone is not waited for"
    assert site.names("daemonsets.apps") == {MANAGER, "gcushare-device-plugin"}
    # Before that helm shows the template's own words, with the same quotes.
    said = refused.errors.rpartition("error calling fail: ")[2]
    command = re.search(r"Run `([^`]*)`", said)
    assert command is not None, said
    done = await site.run(*shlex.split(command[1]))
    assert (done.code, data_of(site)["mode"]) == (0, "recover"), done
    for state in ("changing", "failed"):
        change(site, "configmaps", MANAGER, {"data": {**data_of(site), "node.n1": f'{{"state": "{state}"}}'}})
        refused = await site.run(HELM, *leave, *mode)
        assert f"n1 is {state}" in refused.errors
        assert data_of(site)["mode"] == "recover", "what is waited for stays wanted"
    change(site, "configmaps", MANAGER, {"data": {**data_of(site), "node.n1": '{"state": "recovered"}'}})
    done = await site.run(HELM, *leave, *mode)
    assert done.code == 0, done
    assert site.names("daemonsets.apps") == {"gcushare-device-plugin"}
    assert site.find("configmaps", MANAGER) is None
    done = await site.run(HELM, *leave, *mode)
    assert done.code == 0, "there is nothing to leave any more"


async def test_an_upgrade_touches_neither_pods_nor_their_records(site: Site) -> None:
    record = encode_record(ENFLAME, PodRecord(card_indexes=(3,), card_units=16, pod_units=4, assigned=True))
    shared = pod("shared")
    shared["metadata"]["annotations"] = record
    site.server.registry.put(shared)
    before = site.get("pods", "shared", "default")
    await site.helm("install", "gcushare", UMBRELLA_CHART)
    await site.helm("upgrade", "gcushare", UMBRELLA_CHART, "--set", "gcushare-scheduler-extender-chart.replicaCount=2")
    await site.helm("rollback", "gcushare", "1")
    assert site.get("pods", "shared", "default") == before


async def test_helm_uninstall_alone_puts_the_scheduler_back_first_and_cleans_the_nodes_last(site: Site) -> None:
    await site.helm("install", "gcushare", UMBRELLA_CHART)
    async with config_manager(site, "n1") as host:
        before = host.manifest.read_bytes()
        await until_applied(site, "n1")
        assert host.manifest.read_bytes() != before
        published = {ENFLAME.inventory_annotation: "{}", "kept": "x"}
        change(site, "nodes", "n1", {"metadata": {**site.get("nodes", "n1")["metadata"], "annotations": published}})
        capacity = {"cpu": "8", ENFLAME.count_resource: "2", ENFLAME.memory_resource: "32"}
        change(site, "nodes", "n1", {"status": {"capacity": capacity}}, status_only=True)
        site.server.registry.put(pod("shared", nodeName="n1"))
        there: dict[str, tuple[bool, bool]] = {}

        def remember(job: str) -> None:
            there[job] = (site.find("deployments.apps", EXTENDER) is not None, host.manifest.read_bytes() == before)

        site.on_job = remember
        await site.helm("uninstall", "gcushare")
        assert there == {
            "gcushare-config-manager-uninstall": (True, True),
            "gcushare-device-plugin-cleanup": (False, True),
        }
        assert sorted(path.name for path in (host.root / "etc/kubernetes").iterdir()) == ["manifests"]
    assert [(name, code) for name, code, _ in site.ran] == [
        ("gcushare-config-manager-uninstall", 0),
        ("gcushare-device-plugin-cleanup", 0),
    ]
    node = site.get("nodes", "n1")
    assert node["metadata"]["annotations"] == {"kept": "x"}
    assert node["status"]["capacity"] == {"cpu": "8"}
    assert site.get("pods", "shared", "default")["spec"]["nodeName"] == "n1"


async def test_nothing_is_removed_while_a_scheduler_is_not_put_back(site: Site) -> None:
    await site.helm(
        "install",
        "gcushare",
        UMBRELLA_CHART,
        "--set",
        "gcushare-scheduler-extender-chart.configManager.uninstallTimeout=1s",
    )
    report = json.dumps({"state": "failed", "reason": "read-only file system"})
    change(site, "configmaps", MANAGER, {"data": {"mode": "apply", "node.n1": report}})
    assert (await site.run("helm", "uninstall", "gcushare", "--namespace", NAMESPACE)).code != 0
    assert [(name, code) for name, code, _ in site.ran] == [("gcushare-config-manager-uninstall", 1)]
    assert "read-only file system" in site.ran[0][2]
    assert site.find("deployments.apps", EXTENDER) is not None
    await site.helm("rollback", "gcushare", "1")
    assert data_of(site)["mode"] == "apply", "docs/install.md: the way back from an uninstallation that failed"
    await site.helm("upgrade", "gcushare", UMBRELLA_CHART)
