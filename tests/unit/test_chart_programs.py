"""What the charts start is what the programs accept: flags, ports, probes, scheduler configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gcushare.cli.uninstall.clean import PROGRAM as CLEANUP
from gcushare.config_manager.manager_settings import ExtenderOptions, RecoverNodesSettings, RunSettings
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls, extender_entry
from gcushare.config_manager.scheduler_config.versions import ConfigFormat
from gcushare.device_plugin.command_line import PROGRAM as PLUGIN
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.loading import load_settings
from gcushare.scheduler_extender.extender_settings import PROGRAM as EXTENDER
from gcushare.scheduler_extender.extender_settings import ExtenderSettings
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs
from gcushare.wire.contracts import CA, CLIENT_CERT, CLIENT_KEY, SCHEDULER_NAME, VERBS_PORT, VERBS_PORT_NAME
from tests.charts import (
    EXTENDER_CHART,
    PLUGIN_CHART,
    Object,
    containers,
    in_one_worker,
    load_yaml,
    needs_helm,
    of_kind,
    one,
    pod_specs,
    render,
    rendered,
)
from tests.documents import page_text

pytestmark = [needs_helm, in_one_worker]


def _program(name: str, settings: type[Any]) -> Program[Any]:
    return Program(name=name, summary="", settings=settings)


PROGRAMS: dict[tuple[str, ...], Program[Any]] = {
    ("gcushare-device-plugin",): PLUGIN,
    ("gcushare-scheduler-extender",): EXTENDER,
    ("gcushare-config-manager", "run"): _program("run", RunSettings),
    ("gcushare-config-manager", "uninstall"): _program("uninstall", RecoverNodesSettings),
    ("python3", "-m", "gcushare.cli.uninstall"): CLEANUP,
}


def settings_of(container: Object) -> Any:
    """Read a container's command line as its program does; raises ConfigError for what it would refuse."""
    environ = {each["name"]: each.get("value", "given") for each in container.get("env", ())}
    return load_settings(PROGRAMS[tuple(container["command"])], container["args"], environ)


def programs_of(objects: Sequence[Object]) -> list[Object]:
    return [
        container
        for spec in pod_specs(objects).values()
        for container in containers(spec)
        if tuple(container.get("command", ())) in PROGRAMS
    ]


@pytest.mark.parametrize(
    ("chart", "pairs", "count"),
    [
        pytest.param(PLUGIN_CHART, (), 2, id="plugin"),
        pytest.param(
            PLUGIN_CHART,
            (
                *("vendor=both", "memoryUnit=auto", "deviceListStrategy={env,cdi}"),
                *("memoryLimit=mps", "limitFallback=unlimited"),
            ),
            3,
            id="both",
        ),
        pytest.param(
            PLUGIN_CHART,
            ("mode=whole", "cards.source=simulated", "cards.simulated[0].memory=16GiB"),
            2,
            id="whole-simulated",
        ),
        pytest.param(
            PLUGIN_CHART,
            (
                *("cards.reserve=5%", "logs.hostPath=", "cleanup.removeNodeLabel=true"),
                *("podUse=true", "overUse.action=evict", "overUse.dryRun=true"),
                *("overUse.exempt={kube-system,team-a/train-*}", "claims.enabled=true", "claims.cardPolicy=spread"),
            ),
            2,
            id="plugin-options",
        ),
        pytest.param(PLUGIN_CHART, ("vendor=aliyun", "memoryLimit=driver", "limitFallback=mps"), 2, id="driver-or-mps"),
        pytest.param(EXTENDER_CHART, (), 3, id="extender"),
        pytest.param(
            EXTENDER_CHART,
            (
                *("claims.enabled=true", "claims.packNodes=false", "claims.memoryUnit=MiB"),
                *("vendor=both", "wholeCards=true", "placement.wholeCardPolicy=loose"),
            ),
            3,
            id="claims-and-whole-cards",
        ),
        pytest.param(EXTENDER_CHART, ("scheduler.verbs=plain", "tls.mode=own", "logs.hostPath="), 3, id="plain-verbs"),
        pytest.param(
            EXTENDER_CHART,
            (
                *("scheduler.verbs=both", "verbsTls.mode=secret"),
                *("verbsTls.secretName=a", "verbsTls.clientSecretName=b", "scheduler.ignorable=true"),
                *("configManager.manifest=/a.yaml", "configManager.schedulerVersion=v1.28.3"),
            ),
            3,
            id="given-certificates-and-manifest",
        ),
        pytest.param(EXTENDER_CHART, ("scheduler.mode=none", "placement.filterAnswer=all"), 1, id="none"),
        pytest.param(EXTENDER_CHART, ("scheduler.mode=none", "scheduler.verbs=off"), 1, id="no-verbs"),
    ],
)
def test_every_flag_that_a_chart_gives_is_accepted(chart: Path, pairs: tuple[str, ...], count: int) -> None:
    found = programs_of(rendered(chart, *pairs))
    assert len(found) == count
    for container in found:
        settings_of(container)


def test_probes_ask_the_port_that_the_program_listens_on() -> None:
    unprobed = []
    for chart in (PLUGIN_CHART, EXTENDER_CHART):
        for container in programs_of(rendered(chart, "tls.mode=none") if chart == EXTENDER_CHART else rendered(chart)):
            ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
            for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
                if probe not in container:
                    unprobed.append(container["name"])
                    continue
                asked = container[probe]["httpGet"]
                assert asked["path"] == path
                settings = settings_of(container)
                is_extender = isinstance(settings, ExtenderSettings)
                port = settings.dashboard.page_port if is_extender else settings.serve.listen_port
                assert ports.get(asked["port"], asked["port"]) == port
    assert set(unprobed) == {"cleanup", "uninstall"}, "only what ends by itself has no probes"


def ports(objects: Sequence[Object]) -> list[list[int]]:
    return [[port["port"] for port in service["spec"]["ports"]] for service in of_kind(objects, "Service")]


def test_the_manuals_values_give_its_one_port_its_files_and_the_log_of_chapter_4() -> None:
    """Other pages are tried on a real control plane: e2e/test_one_card.py and e2e/test_managed_clusters.py."""
    objects = render(EXTENDER_CHART, values=page_text("manual.md", "# manual"))
    assert ports(objects) == [[32766]]
    assert ports(rendered(EXTENDER_CHART)) == [[32766, 32764], [32763]]
    assert ports(rendered(EXTENDER_CHART, "dashboard.access=off")) == [[32766, 32764]]
    specs = pod_specs(objects)
    extender = containers(specs["Deployment/gcushare-scheduler-extender"])[-1]["args"]
    manager = containers(specs["DaemonSet/gcushare-config-manager"])[-1]["args"]
    assert "--log-level=debug" in extender
    # Only files that are elsewhere are printed with the manual's path in brackets.
    assert {"--log-level=debug", "--files-dir=/etc/kubernetes"} <= {*manager}


def second_scheduler_config(*pairs: str, version: str) -> Object:
    objects = rendered(EXTENDER_CHART, "scheduler.mode=second-scheduler", *pairs, version=version)
    text = one(objects, "ConfigMap", "gcushare-scheduler")["data"]["scheduler-config.yaml"]
    return load_yaml(text)


@pytest.mark.parametrize(
    ("version", "api"),
    [("v1.19.0", "v1beta1"), ("v1.22.1", "v1beta2"), ("v1.23.0", "v1beta3"), ("v1.25.0", "v1"), ("v1.36.2", "v1")],
)
def test_the_second_scheduler_is_configured_in_the_version_that_it_reads(version: str, api: str) -> None:
    config = second_scheduler_config(version=version)
    assert config["apiVersion"] == f"kubescheduler.config.k8s.io/{api}"
    assert config["profiles"] == [{"schedulerName": "gcushare-scheduler"}]
    assert config["leaderElection"]["resourceName"] == "gcushare-scheduler"
    assert config["leaderElection"]["resourceLock"] == "leases", "its Role grants no Endpoints"


@pytest.mark.parametrize(("name", "whole"), [("enflame", False), ("aliyun", True), ("both", True)])
def test_the_second_scheduler_calls_the_extender_as_the_first_would(name: str, whole: bool) -> None:
    pairs = (
        f"vendor={name}",
        "scheduler.weight=3",
        *(f"{key}={str(whole).lower()}" for key in ("wholeCards", "claims.enabled", "claims.callExtender")),
    )
    (entry,) = second_scheduler_config(*pairs, "scheduler.verbs=plain", version="v1.36.2")["extenders"]
    url = "http://gcushare-scheduler-extender.kube-system.svc:32766"
    options = ExtenderOptions(vendor=name, weight=3, whole_cards=whole, claims=whole)
    settings = ExtenderEntry(url=url, options=options)
    assert entry == json.loads(json.dumps(extender_entry(settings, ConfigFormat.V1)))


def test_the_second_scheduler_shows_its_certificate_on_the_extenders_own_port() -> None:
    (entry,) = second_scheduler_config(version="v1.36.2")["extenders"]
    server = "gcushare-scheduler-extender.kube-system.svc"
    tls = ExtenderTls(ca=b"ca", server_name=server, certificate=b"c", key=b"k")
    settings = ExtenderEntry(url=f"https://{server}:{VERBS_PORT}", options=ExtenderOptions(vendor="enflame"), tls=tls)
    wanted = json.loads(json.dumps(extender_entry(settings, ConfigFormat.V1)))
    folder = "/etc/gcushare-tls"
    files = {"caFile": f"{folder}/ca.crt", "certFile": f"{folder}/tls.crt", "keyFile": f"{folder}/tls.key"}
    wanted["tlsConfig"] = {"serverName": server, **files}
    assert entry == wanted


def test_a_network_policy_lets_the_charts_own_scheduler_in() -> None:
    """Those of others are on the host's network; who may call is named by address."""
    given = ("networkPolicy.enabled=true", "networkPolicy.ingressFrom[0].ipBlock.cidr=10.0.0.0/8")
    objects = rendered(EXTENDER_CHART, "scheduler.mode=second-scheduler", *given)
    (rule,) = one(objects, "NetworkPolicy", "gcushare-scheduler-extender")["spec"]["ingress"]
    labels = one(objects, "Deployment", "gcushare-scheduler")["spec"]["template"]["metadata"]["labels"]
    selectors = [each["podSelector"]["matchLabels"] for each in rule["from"] if "podSelector" in each]
    assert [selector.items() <= labels.items() for selector in selectors] == [True]


@pytest.mark.parametrize("mode", ["config-manager", "second-scheduler"])
def test_mutual_tls_is_what_is_installed_by_default(mode: str) -> None:
    objects = rendered(EXTENDER_CHART, f"scheduler.mode={mode}")
    (container,) = pod_specs(objects)["Deployment/gcushare-scheduler-extender"]["containers"]
    verbs = settings_of(container).verbs
    assert (verbs.verbs, verbs.verbs_port, verbs.verbs_client_name) == (Verbs.TLS, VERBS_PORT, SCHEDULER_NAME)
    made = one(objects, "Secret", verbs.verbs_secret.name)
    assert (made["type"], made.get("data")) == ("Opaque", None)
    ports = {
        each["name"]: each["port"] for each in one(objects, "Service", "gcushare-scheduler-extender")["spec"]["ports"]
    }
    assert ports == {"http": 32766, VERBS_PORT_NAME: VERBS_PORT}


def test_the_config_manager_hands_on_what_the_extender_makes() -> None:
    objects = rendered(EXTENDER_CHART)
    (extender,) = pod_specs(objects)["Deployment/gcushare-scheduler-extender"]["containers"]
    spec = pod_specs(objects)["DaemonSet/gcushare-config-manager"]
    options = settings_of(spec["containers"][0]).extender
    assert options.tls_ca is not None, "so the scheduler calls over HTTPS"
    assert options.server_name == settings_of(extender).verbs.verbs_server_name[0]
    (volume,) = [volume for volume in spec["volumes"] if "secret" in volume]
    assert volume["secret"]["secretName"] == settings_of(extender).verbs.verbs_secret.name
    laid_out = {item["path"]: item["key"] for item in volume["secret"]["items"]}
    given = [path and laid_out[path.name] for path in (options.tls_ca, options.tls_cert, options.tls_key)]
    assert given == [CA, CLIENT_CERT, CLIENT_KEY]


def test_cert_manager_makes_one_certificate_for_each_side() -> None:
    objects = rendered(EXTENDER_CHART, "verbsTls.mode=cert-manager", "verbsTls.issuer.name=authority")
    server, client = of_kind(objects, "Certificate")
    assert server["spec"]["usages"] == ["digital signature", "server auth"]
    assert client["spec"]["usages"] == ["digital signature", "client auth"]
    assert client["spec"]["dnsNames"] == [SCHEDULER_NAME]
    assert client["spec"]["commonName"] == SCHEDULER_NAME
    specs = pod_specs(objects)
    verbs = settings_of(specs["Deployment/gcushare-scheduler-extender"]["containers"][0]).verbs
    assert verbs.verbs_secret is None
    mounted = {
        name: [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
        for name, spec in specs.items()
        if "volumes" in spec
    }
    assert mounted["Deployment/gcushare-scheduler-extender"] == [server["spec"]["secretName"]]
    assert mounted["DaemonSet/gcushare-config-manager"] == [client["spec"]["secretName"]]


@pytest.mark.parametrize(
    ("vendor", "cards", "code", "said"),
    [
        ("aliyun", ["nvidia2", "nvidiactl", "nvidia-caps"], 0, "cards in /dev: {dev}/nvidia2"),
        ("enflame", ["gcu0", "gcuctl"], 0, "cards in /dev: {dev}/gcu0"),
        ("aliyun", ["nvidiactl"], 1, "and /dev has 0"),
        ("aliyun", ["nvidia0", "nvidia1"], 1, "and /dev has 2"),
    ],
)
def test_the_pod_of_helm_test_looks_for_exactly_one_card(
    tmp_path: Path, vendor: str, cards: list[str], code: int, said: str
) -> None:
    for name in cards:
        (tmp_path / name).touch()
    [pod] = of_kind(rendered(PLUGIN_CHART, f"vendor={vendor}", "runtimeClassName=nvidia"), "Pod")
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    script = containers(pod["spec"])[0]["command"][-1].replace('"/dev/', f'"{tmp_path}/')
    environ = {"X_MEM_IDX": "0", "X_MEM_CONTAINER": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True)
    assert done.returncode == code
    assert said.format(dev=tmp_path) in done.stdout + done.stderr


def test_the_pod_of_helm_test_looks_for_no_device_of_simulated_cards() -> None:
    values = ("vendor=aliyun", "cards.source=simulated", "cards.simulated[0].memory=16GiB")
    [pod] = of_kind(rendered(PLUGIN_CHART, *values), "Pod")
    assert "/dev" not in containers(pod["spec"])[0]["command"][-1]
