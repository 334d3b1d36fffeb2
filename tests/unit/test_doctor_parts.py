"""The small pure parts of the doctor: command lines, configurations, figures, dates, order, words, limits."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from gcushare.cluster.diagnosis.checks.plugins import check_limits
from gcushare.cluster.diagnosis.checks.registry import examine
from gcushare.cluster.diagnosis.facts import Facts, PluginFacts
from gcushare.cluster.diagnosis.schedulers import ConfiguredExtender, parse_configuration
from gcushare.cluster.metrics_text import parse_figures
from gcushare.cluster.programs import ProgramKind, SeenPod, flag_of, is_plugin, program_of
from gcushare.cluster.reader import parse_date
from gcushare.core.errors import RemoteContractError
from gcushare.vendors import ALIYUN
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS
from gcushare.wire.objects import ObjectMeta
from tests.protocol.doctor_rig import status

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("p", "--vendor=aliyun"), "aliyun"),
        (("p", "--vendor", "aliyun"), "aliyun"),
        (("p", "--vendor=a", "--vendor=b"), "b"),
        (("p", "--vendor"), "true"),
        (("p", "--vendor", "--other"), "true"),
        (("p", "--vendors=a", "vendor=b"), None),
        (("p", "-vendor=a"), "a"),
    ],
)
def test_flags_are_read_as_go_and_we_write_them(words: tuple[str, ...], value: str | None) -> None:
    assert flag_of(words, "vendor") == value


def a_pod(
    image: str = "i", command: list[str] | None = None, *args: str, phase: str = "Running", node: str = "n"
) -> SeenPod:
    spec = {"containers": [{"name": "c", "image": image, "command": command or [], "args": args}], "nodeName": node}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}, SeenPod)


@pytest.mark.parametrize(
    ("pod", "program"),
    [
        pytest.param(a_pod("r/e:1", ["gcushare-device-plugin"]), ProgramKind.PLUGIN, id="command"),
        pytest.param(a_pod("r/e:1", ["/usr/bin/gcushare-scheduler-extender"]), ProgramKind.EXTENDER, id="path"),
        pytest.param(a_pod("r/gcushare-device-plugin@sha256:0a"), ProgramKind.PLUGIN, id="image with digest"),
        pytest.param(a_pod("r:5000/kube-scheduler:v1.30.1"), ProgramKind.SCHEDULER, id="image with tag"),
        pytest.param(
            a_pod("r/gcushare-scheduler-extender:1", ["gcushare-config-manager", "run"]),
            ProgramKind.CONFIG_MANAGER,
            id="the command beats the image",
        ),
        pytest.param(a_pod("r/gcushare-scheduler-extender:1", ["sleep"]), None, id="another command in our image"),
        pytest.param(a_pod("r/e", ["gcushare-config-manager", "uninstall"]), None, id="a one-shot"),
        pytest.param(a_pod("r/e", ["gcushare-device-plugin"], phase="Succeeded"), None, id="ended"),
        pytest.param(a_pod(), None, id="anything"),
    ],
)
def test_programs_are_recognised_however_they_were_installed(pod: SeenPod, program: ProgramKind | None) -> None:
    assert program_of(pod) is program


@pytest.mark.parametrize(
    ("name", "labels", "found"),
    [
        ("gpushare-device-plugin-ds-j8blj", {}, True),
        ("gcushare-device-plugin-n6c5w", {"app.kubernetes.io/component": "device-plugin"}, True),
        ("gcushare-device-plugin-aliyun-mps-x2k4v", {"app.kubernetes.io/component": "mps-daemon"}, False),
    ],
)
def test_a_plugin_is_known_by_its_pods_name_but_its_mps_daemon_is_none(
    name: str, labels: dict[str, str], found: bool
) -> None:
    pod = msgspec.structs.replace(a_pod(command=["x"]), metadata=ObjectMeta(name=name, labels=labels))
    assert is_plugin(pod) is found


def test_extenders_are_read_from_either_kind_of_document() -> None:
    yaml = "extenders:\n- urlPrefix: https://10.0.0.1/gcushare-scheduler/\n  managedResources: [{name: a/b}]\n"
    policy = '{"kind": "Policy", "extenders": [{"urlPrefix": "http://u:p@h:1/x", "bindVerb": "bind"}]}'
    ((first,), _), ((second,), nameless) = parse_configuration(yaml), parse_configuration(policy)
    assert (first.host, first.port, first.path, first.resources) == ("10.0.0.1", 443, "/gcushare-scheduler", ("a/b",))
    assert second == ConfiguredExtender(url="http://h:1/x", binds=True)
    assert parse_configuration("kind: KubeSchedulerConfiguration\nextenders: null\n") == ((), frozenset())
    _, names = parse_configuration("profiles: [{schedulerName: a}, {schedulerName: b, plugins: {}}, x]\n")
    assert names == {"a", "b"}
    assert nameless == parse_configuration("profiles: null\n")[1] == frozenset()


@pytest.mark.parametrize("port", ["port", "327660", "-1"])
def test_a_port_that_is_none_is_0_and_the_rest_of_the_url_is_read(port: str) -> None:
    found = ConfiguredExtender(url=f"http://10.0.0.1:{port}/gcushare-scheduler")
    assert (found.host, found.port, found.path) == ("10.0.0.1", 0, "/gcushare-scheduler")


@pytest.mark.parametrize("text", ["[", "- a", "just text", ""])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(RemoteContractError):
        parse_configuration(text)


def test_figures_are_summed_over_the_labels_left_open() -> None:
    figures = parse_figures(
        '# TYPE gcushare_a gauge\ngcushare_a{v="1",w="x"} 2\ngcushare_a{v="2",w="x"} 3\n# TYPE other gauge\nother 9\n'
    )
    assert (figures.sum("gcushare_a", w="x"), figures.sum("gcushare_a", v="2")) == (5, 3)
    assert (figures.least("gcushare_a"), figures.sum("other")) == (2, 0)
    assert not parse_figures("")
    with pytest.raises(RemoteContractError):
        parse_figures("gcushare_a{ 1")


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
def test_a_date_header_is_read_whatever_its_zone_is_called(zone: str) -> None:
    assert parse_date(f"Fri, 02 Jan 2026 03:04:05 {zone}") == NOW
    assert parse_date("") is None


@pytest.fixture(scope="module")
def kinds() -> set[str]:
    """Every kind of finding that a check makes, as its source has it."""
    sources = "".join(
        path.read_text() for path in sorted((ROOT / "src/gcushare/cluster/diagnosis/checks").glob("*.py"))
    )
    made = set(re.findall(r'\b(?:error|warning|info|make)\(\s*"([a-z]+(?:-[a-z]+)+)"', sources))
    return made | set(re.findall(r'kind = "([a-z-]+)" if .* else "([a-z-]+)"', sources)[0])


def test_every_finding_is_documented_and_nothing_else(kinds: set[str]) -> None:
    text = (ROOT / "docs/doctor.md").read_text()
    assert set(re.findall(r"^- `([a-z-]+)`(?= \()", text, re.MULTILINE)) == kinds


def test_every_finding_is_made_to_happen_by_a_test(kinds: set[str]) -> None:
    texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert {kind for kind in kinds if not re.search(rf'"(?:\w+ )?{kind}"', texts)} == set()


def test_a_cluster_without_anything_is_reported_to_be_empty() -> None:
    assert [each.id for each in examine(Facts(now=NOW))] == ["nothing-found"]


OLDER = "nvmlDeviceGetMemoryLimits_v1 failed: the driver keeps no memory limits of control groups"


def plugin(node: str, driver: str, problem: str, *flags: str) -> PluginFacts:
    pod = a_pod("i", ["gcushare-device-plugin"], *flags, node=node)
    said = status(driver=driver, problems={"memoryLimit": problem} if problem else {})
    return PluginFacts(pod=pod, vendor=ALIYUN, status=PLUGIN_STATUS.read(said.encode()))


DRIVER = "--memory-limit=driver"


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        pytest.param([plugin("a", "615.71", "", DRIVER)], [], id="all is well"),
        pytest.param([plugin("a", "550.54", OLDER, DRIVER)], [("node a", "error")], id="it refuses"),
        pytest.param(
            [plugin("a", "550.54", OLDER, DRIVER, "--limit-fallback=unlimited")], [("node a", "warning")], id="open"
        ),
        pytest.param([plugin("a", "550.54", "no daemon", "--memory-limit=mps")], [("node a", "error")], id="mps"),
    ],
)
def test_a_node_that_cannot_limit_memory_is_named(plugins: list[PluginFacts], found: list[tuple[str, str]]) -> None:
    facts = Facts(now=datetime(2026, 1, 2, tzinfo=UTC), plugins=tuple(plugins))
    findings = list(check_limits(facts))
    assert [(each.subject, each.severity.value) for each in findings] == found
    assert all(each.id == "memory-not-limited" and "limitFallback" in each.remedy for each in findings)
    by_mps = "--memory-limit=mps" in plugins[0].pod.spec.containers[0].args
    assert all(("component=mps-daemon --field-selector spec.nodeName=a" in each.remedy) == by_mps for each in findings)
