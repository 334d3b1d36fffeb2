"""Versions: where they are read from, and which are refused."""

from __future__ import annotations

import pytest

from gcushare.config_manager.host.launch import scheduler_flags
from gcushare.config_manager.scheduler_config.versions import (
    ConfigFormat,
    parse_format,
    parse_image_version,
    parse_version,
)
from gcushare.core.errors import ConfigError
from gcushare.wire.flags import effective


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("v1.20.0", "v1.20.0"),
        ("1.28.4", "v1.28.4"),
        ("Kubernetes v1.23.1\n", "v1.23.1"),
        ("v1.28.9-rke2r1", "v1.28.9-rke2r1"),
        ("v1.28.4+k3s1", "v1.28.4+k3s1"),
        ("1.30", "v1.30.0"),
        ("v1.99.0", "v1.99.0"),
    ],
)
def test_a_version_is_read_in_every_spelling(text: str, shown: str) -> None:
    assert str(parse_version(text)) == shown


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("k8s.gcr.io/kube-scheduler:v1.20.0", "v1.20.0"),
        ("registry:5000/a/kube-scheduler:v1.30.1@sha256:0123", "v1.30.1"),
        ("rancher/hardened-kubernetes:v1.27.8-rke2r1-build20231115", "v1.27.8-rke2r1-build20231115"),
        ("registry:5000/kube-scheduler", None),
        ("kube-scheduler@sha256:0123", None),
        ("registry.local/kube-scheduler:v1.30.2-rancher1", "v1.30.2-rancher1"),
        ("eks-distro/kubernetes/kube-scheduler:1.29-eksbuild", "v1.29.0-eksbuild"),
        ("kube-scheduler:stable", None),
        ("kube-scheduler:latest", None),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.32.7", None),
        ("registry.local/kube-scheduler:v2.4.1", None),
        ("registry.local/kube-scheduler:2024.05.1", None),
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


def test_a_format_is_known_by_kind_and_version_together() -> None:
    assert parse_format("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration") is ConfigFormat.V1
    assert parse_format(None, "Policy") is ConfigFormat.POLICY
    with pytest.raises(ConfigError, match="kind 'Policy' apiVersion 'v2'"):
        parse_format("v2", "Policy")


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
    found = effective(flags, "a")
    assert found is not None
    assert found.value == "3"
    assert effective(flags, "none") is None
