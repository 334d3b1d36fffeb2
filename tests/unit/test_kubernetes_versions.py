"""The Kubernetes releases that are known are one fact: programs, charts and documents of both languages agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gcushare.config_manager.scheduler_config.versions import accepted_versions, parse_version
from gcushare.core.errors import ConfigError
from gcushare.wire.kubernetes_versions import NEWEST_KUBERNETES, OLDEST_KUBERNETES, eviction_version, release_text

ROOT = Path(__file__).parents[2]
OLDEST, NEWEST = release_text(OLDEST_KUBERNETES), release_text(NEWEST_KUBERNETES)
CHARTS = sorted((ROOT / "deploy").rglob("Chart.yaml"))
SAYINGS = {
    "quick-start.md": (rf"Kubernetes {OLDEST} or newer", rf"Kubernetes {OLDEST} 或更新版本"),
    "install.md": (rf"Kubernetes {OLDEST} to {NEWEST}", rf"Kubernetes {OLDEST} 到 {NEWEST}"),
    "admin-guide.md": (rf"between {OLDEST} and {NEWEST}", rf"在 {OLDEST} 到 {NEWEST} 之间"),
    "comparison.md": (rf"clusters from {OLDEST} on", rf"{OLDEST} 以来的集群"),
    "troubleshooting.md": (rf"^{OLDEST} to {NEWEST}\b", rf"^{OLDEST} 到 {NEWEST}\b"),
    "doctor.md": (rf"`kubelet-too-old` .* older than {OLDEST},", rf"`kubelet-too-old`.*低于 {OLDEST}，"),
}


@pytest.mark.parametrize("page", SAYINGS)
def test_documents_name_the_same_releases_in_both_languages(page: str) -> None:
    english, chinese = SAYINGS[page]
    assert re.search(english, (ROOT / "docs" / page).read_text(), re.MULTILINE)
    assert re.search(chinese, (ROOT / "docs" / "zh" / page).read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.parent.name)
def test_no_chart_asks_for_another_release(path: Path) -> None:
    assert YAML(typ="safe").load(path).get("kubeVersion", f">={OLDEST}.0-0") == f">={OLDEST}.0-0"


def test_the_config_manager_accepts_the_oldest_and_nothing_older() -> None:
    assert accepted_versions().startswith(f"{OLDEST} to {NEWEST}")
    assert parse_version(f"v{OLDEST}.0").release == OLDEST_KUBERNETES
    with pytest.raises(ConfigError):
        parse_version(f"v1.{OLDEST_KUBERNETES[1] - 1}.17")


@pytest.mark.parametrize(
    ("server", "version"),
    [("v1.18.20", "v1beta1"), ("v1.21.0-eks-1", "v1beta1"), ("v1.22.0", "v1"), ("v1.36.2", "v1"), ("", "v1")],
)
def test_an_eviction_is_sent_in_the_version_that_the_server_takes(server: str, version: str) -> None:
    assert eviction_version(server) == version
