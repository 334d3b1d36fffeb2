"""The scheduler's version and configuration: new ones in each version's words, merges that keep the admin's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gcushare.cluster.diagnosis.schedulers import read_extender
from gcushare.config_manager.host.launch import scheduler_flags
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.document import existing_config, merged_config, new_config
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls, is_ours
from gcushare.config_manager.scheduler_config.versions import ConfigFormat, parse_image_version, parse_version
from gcushare.core.errors import ConfigError, Refused
from gcushare.wire.flags import Flag, effective
from tests.unit.config_manager_host import ADMIN_CONFIG, EXTENDER, MOVED_EXTENDER, TLS_EXTENDER, load_yaml
from tests.unit.gpushare_scheduler import PUBLISHED_CONFIG

BOTH = ExtenderEntry(url="http://10.96.1.37:32766", options=ExtenderOptions(vendor="both"))
ALIYUN_ONLY = ExtenderEntry(url="http://10.96.1.37:32766/", options=ExtenderOptions(vendor="aliyun"))
SEED = "---\n" + PUBLISHED_CONFIG.replace('gpushare-scheduler"', 'gpushare-scheduler"   # the old one')


def with_options(entry: ExtenderEntry, **changes: Any) -> ExtenderEntry:
    return replace(entry, options=replace(entry.options, **changes))


def flags(*arguments: str) -> tuple[Flag, ...]:
    return scheduler_flags(["kube-scheduler", *arguments])


@pytest.mark.parametrize(
    ("version", "api_version", "kind"),
    [
        ("v1.22.17", "v1", "Policy"),
        ("v1.23.0", "kubescheduler.config.k8s.io/v1beta3", "KubeSchedulerConfiguration"),
        ("v1.24.17", "kubescheduler.config.k8s.io/v1beta3", "KubeSchedulerConfiguration"),
        ("v1.25.0", "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"),
        ("v1.41.0", "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"),
    ],
)
def test_each_version_gets_the_newest_format_that_it_reads(version: str, api_version: str, kind: str) -> None:
    document = load_yaml(new_config(EXTENDER, parse_version(version), ()).text)
    assert (document["apiVersion"], document["kind"]) == (api_version, kind)


def test_a_policy_speaks_in_old_words_and_nanoseconds() -> None:
    document = json.loads(new_config(with_options(EXTENDER, timeout=2.5), parse_version("1.20"), ()).text)
    assert document["extenders"] == [
        {
            "urlPrefix": "http://10.96.1.37:32766/gcushare-scheduler",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": 1,
            "enableHttps": False,
            "httpTimeout": 2_500_000_000,
            "nodeCacheCapable": True,
            "managedResources": [{"name": "enflame.com/gcu-memory", "ignoredByScheduler": False}],
            "ignorable": False,
        }
    ]


@pytest.mark.parametrize(("seconds", "written"), [(60, "60s"), (1.5, "1500ms")])
def test_a_configuration_writes_its_timeout_as_a_go_duration(seconds: float, written: str) -> None:
    document = load_yaml(new_config(with_options(EXTENDER, timeout=seconds), parse_version("1.30"), ()).text)
    assert document["extenders"][0]["httpTimeout"] == written


def test_what_config_would_drop_of_the_flags_is_carried_into_the_file() -> None:
    given = flags(
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--profiling=false",
        "--kube-api-qps=75",
        "--kube-api-burst",
        "150",
        "--leader-elect=true",
        "--leader-elect-lease-duration=30s",
        "--bind-address=127.0.0.1",
        "--v=2",
    )
    document = load_yaml(new_config(EXTENDER, parse_version("1.29"), given).text)
    assert {key: value for key, value in document.items() if key not in ("extenders", "apiVersion", "kind")} == {
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 75, "burst": 150},
        "enableProfiling": False,
        "leaderElection": {"leaderElect": True, "leaseDuration": "30s"},
    }


def test_tls_goes_into_the_file_itself_so_that_nothing_more_is_mounted() -> None:
    (entry,) = load_yaml(new_config(TLS_EXTENDER, parse_version("1.30"), ()).text)["extenders"]
    assert entry["enableHTTPS"] is True
    assert entry["tlsConfig"] == {
        "caData": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
        "certData": "LS0tLS1CRUdJTiBDCg==",
        "keyData": "LS0tLS1CRUdJTiBLRVkK",
    }
    assert TLS_EXTENDER.is_secret
    assert "BEGIN KEY" not in repr(TLS_EXTENDER)


def test_a_merge_appends_our_entry_and_keeps_every_byte_of_the_rest() -> None:
    merged = merged_config(ADMIN_CONFIG, "c", EXTENDER)
    assert merged.text.startswith(ADMIN_CONFIG)
    assert [one["urlPrefix"] for one in load_yaml(merged.text)["extenders"]] == [
        "http://10.0.0.5:9000/volumes",
        "http://10.96.1.37:32766/gcushare-scheduler",
    ]


@pytest.mark.parametrize("base", [ADMIN_CONFIG, SEED, ADMIN_CONFIG.replace("\n", "\r\n"), ADMIN_CONFIG.rstrip("\n")])
def test_merging_twice_is_merging_once(base: str) -> None:
    settings = ALIYUN_ONLY if base == SEED else EXTENDER
    once = merged_config(base, "c", settings).text
    assert merged_config(once, "c", settings).text == once
    assert load_yaml(once)["profiles" if base != SEED else "extenders"]


def test_upstreams_entry_is_brought_up_to_date_where_it_stands() -> None:
    merged = merged_config(SEED, "c", ALIYUN_ONLY).text
    expected = SEED.replace("192.168.233.101", "10.96.1.37")
    assert merged.startswith(expected)
    added = load_yaml("\n".join(line.strip() for line in merged[len(expected) :].splitlines()))
    assert added == {"prioritizeVerb": "prioritize", "preemptVerb": "preempt", "weight": 1, "httpTimeout": "5s"}


def test_another_address_or_the_end_of_tls_changes_our_entry_alone() -> None:
    once, secure = (merged_config(ADMIN_CONFIG, "c", each).text for each in (EXTENDER, TLS_EXTENDER))
    assert merged_config(once, "c", MOVED_EXTENDER).text == once.replace("10.96.1.37", "10.96.200.8")
    assert load_yaml(merged_config(secure, "c", EXTENDER).text) == load_yaml(once)


def test_two_old_entries_of_the_two_vendors_become_one() -> None:
    enflame = (
        SEED.partition("extenders:\n")[2]
        .replace("gpushare-s", "gcushare-s")
        .replace("aliyun.com/gpu-mem", "enflame.com/gcu-memory")
    )
    document = load_yaml(merged_config(SEED + enflame.replace("  bindVerb: bind\n", ""), "c", BOTH).text)
    assert [one["urlPrefix"] for one in document["extenders"]] == ["http://10.96.1.37:32766/gcushare-scheduler"]


@pytest.mark.parametrize(
    "base",
    [
        '{"kind":"Policy","apiVersion":"v1","extenders":[{"urlPrefix":"http://a/b","filterVerb":"f"}]}',
        '{\n  "kind": "Policy",\n  "apiVersion": "v1",\n  "extenders": []\n}\n',
        "kind: Policy\napiVersion: v1\npredicates:   # ours\n- name: PodFitsResources\n",
        "kind: Policy\nextenders:\n",
    ],
)
def test_policies_in_json_and_yaml_are_merged_in_their_own_form(base: str) -> None:
    merged = merged_config(base, "p", EXTENDER)
    assert load_yaml(merged.text)["extenders"][-1]["enableHttps"] is False
    assert {**load_yaml(merged.text), "extenders": None} == {**load_yaml(base), "extenders": None}
    assert merged.flag == "policy-config-file"


def test_a_second_binding_extender_is_refused_by_name() -> None:
    base = ADMIN_CONFIG.replace("  weight: 3\n", "  bindVerb: bind\n")
    with pytest.raises(Refused, match=r"'http://10\.0\.0\.5:9000/volumes' binds pods already"):
        merged_config(base, "c", EXTENDER)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("kind: ConfigMap\napiVersion: v1\n", "c: kind 'ConfigMap'"),
        ("kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v2\n", "v2"),
        ("kind: Policy\napiVersion: v1\nextenders: {a: b}\n", "extenders is not a list"),
        ("- x\n", "a mapping is expected"),
    ],
)
def test_what_is_no_configuration_is_refused_with_what_is_known(base: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merged_config(base, "c", EXTENDER)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (("--config=/a", "--policy-config-file=/b"), "/b"),
        (("--config=/a", "--config=/c"), "/c"),
        (("--v=2",), None),
    ],
)
def test_the_configuration_that_counts_is_found(given: tuple[str, ...], value: str | None) -> None:
    flag = existing_config(flags(*given))
    assert (None if flag is None else flag.value) == value


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"urlPrefix": "https://host:1/gcushare-scheduler/"}, True),
        ({"urlPrefix": "http://h/x", "managedResources": [{"name": "enflame.com/gcu-memory"}]}, False),
        ({"urlPrefix": "http://h/gpushare-scheduler"}, False),
        ({"urlPrefix": "http://h/x", "managedResources": "enflame.com/gcu-memory"}, False),
        ({}, False),
    ],
)
def test_our_entry_is_known_by_its_path_alone(entry: dict[str, object], expected: bool) -> None:
    found = read_extender(entry)
    assert is_ours(found, EXTENDER) is expected
    assert is_ours(found, with_options(EXTENDER, whole_cards=True)) is expected


def test_whole_cards_and_claims_are_managed_only_if_asked_for_and_the_scheduler_counts_no_claims() -> None:
    def managed(**changes: Any) -> list[dict[str, Any]]:
        document = load_yaml(new_config(with_options(BOTH, **changes), parse_version("1.30"), ()).text)
        (entry,) = document["extenders"]  # for both vendors, because only one extender may bind
        found: list[dict[str, Any]] = entry["managedResources"]
        return found

    memory = ["enflame.com/gcu-memory", "aliyun.com/gpu-mem"]
    assert [item["name"] for item in managed()] == memory
    whole = managed(whole_cards=True)
    assert [item["name"] for item in whole] == [*memory, "enflame.com/gcu", "nvidia.com/gpu"]
    assert not any(item["ignoredByScheduler"] for item in whole)
    marked = [item for item in managed(claims=True) if item["ignoredByScheduler"]]
    assert [item["name"] for item in marked] == [each.claims.extender_resource for each in BOTH.options.vendors]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "10.96.1.37:32766"}, "must look like http"),
        ({"url": "http://10.96.1.37:327660"}, "must look like http"),
        ({"url": "http://10.96.1.37:32766/gcushare-scheduler"}, "must end after the port"),
        ({"tls": ExtenderTls(ca=b"x")}, "https://"),
    ],
)
def test_settings_that_kube_scheduler_would_refuse_are_refused_before(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(EXTENDER, **changes)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.28.4", "v1.28.4"),
        ("Kubernetes v1.23.1\n", "v1.23.1"),
        ("v1.28.9-rke2r1", "v1.28.9-rke2r1"),
        ("v1.28.4+k3s1", "v1.28.4+k3s1"),
        ("1.30", "v1.30.0"),
    ],
)
def test_a_version_is_read_in_every_spelling(text: str, shown: str) -> None:
    assert str(parse_version(text)) == shown


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("registry:5000/a/kube-scheduler:v1.30.1@sha256:0123", "v1.30.1"),
        ("rancher/hardened-kubernetes:v1.27.8-rke2r1-build20231115", "v1.27.8-rke2r1-build20231115"),
        ("registry:5000/kube-scheduler", None),
        ("kube-scheduler@sha256:0123", None),
        ("registry.local/kube-scheduler:v1.30.2-rancher1", "v1.30.2-rancher1"),
        ("eks-distro/kubernetes/kube-scheduler:1.29-eksbuild", "v1.29.0-eksbuild"),
        ("kube-scheduler:stable", None),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.32.7", None),
        ("registry.local/kube-scheduler:v2.4.1", None),
        ("registry.local/kube-scheduler:v1.4.0", None),
        ("registry.local/batch-scheduler:v1.24.0", None),
        ("", None),
    ],
)
def test_an_images_tag_tells_the_version_if_it_is_one(image: str, shown: str | None) -> None:
    version = parse_image_version(image)
    assert (None if version is None else str(version)) == shown


@pytest.mark.parametrize(
    ("version", "read"),
    [
        ("1.19", {ConfigFormat.POLICY, ConfigFormat.V1ALPHA2, ConfigFormat.V1BETA1}),
        ("1.22", {ConfigFormat.POLICY, ConfigFormat.V1BETA1, ConfigFormat.V1BETA2}),
        ("1.23", {ConfigFormat.V1BETA2, ConfigFormat.V1BETA3}),
        ("1.25", {ConfigFormat.V1BETA2, ConfigFormat.V1BETA3, ConfigFormat.V1}),
        ("1.28", {ConfigFormat.V1BETA3, ConfigFormat.V1}),
        ("1.36", {ConfigFormat.V1}),
    ],
)
def test_each_version_reads_its_formats(version: str, read: set[ConfigFormat]) -> None:
    assert {each for each in ConfigFormat if each.is_read_by(parse_version(version))} == read


def test_flags_are_read_as_pflag_reads_them() -> None:
    flags = scheduler_flags(
        ["kube-scheduler", "--a=1=2", "--b_c", "x", "--leader-elect", "--v", "2", "--a=3", "--", "-z", "--d"]
    )
    assert [(flag.name, flag.value, flag.index, flag.value_index) for flag in flags] == [
        ("a", "1=2", 1, 1),
        ("b-c", "x", 2, 3),
        ("leader-elect", "true", 4, 4),
        ("v", "2", 5, 6),
        ("a", "3", 7, 7),
    ]
    assert (effective(flags, "a"), effective(flags, "none")) == (flags[-1], None)
