"""change_repository.sh: forks and private registries have every chart and manifest name their own images."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gcushare._version import __version__
from tests.charts import ROOT

SCRIPT = ROOT / "scripts/change_repository.sh"
FORMER = "artifact.enflame.cn"
NEW = "registry.local:5000/team/gcushare"
IMAGE = re.compile(r"[\w.:/-]+/gcushare-[a-z-]+:[\w.-]+")


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """What names images, as in a checkout: charts, manifests and documents."""
    for name in ("deploy", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("images"))
    for name in ("README.md", "README.zh-CN.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path / "deploy"


def change(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words[:1], folder, *words[1:]], capture_output=True, text=True, timeout=60, check=False
    )


def test_charts_and_manifests_name_the_repository_and_the_tag(deploy: Path) -> None:
    done = change(deploy.parent, NEW, "v9.8.7")
    assert (done.returncode, done.stdout) == (0, f"images are at {NEW}, with the tag v9.8.7\n"), done.stderr
    texts = {path: path.read_text() for path in deploy.rglob("*.yaml") if path.is_file()}
    assert [path for path, text in texts.items() if FORMER in text] == []
    assert FORMER not in (deploy.parent / "docs/install.md").read_text()
    named = {image for path, text in texts.items() if "manifests" in path.parts for image in IMAGE.findall(text)}
    assert named == {f"{NEW}/{name}:v9.8.7" for name in ("gcushare-device-plugin", "gcushare-scheduler-extender")}
    values = [text for path, text in texts.items() if path.name == "values.yaml" and NEW in text]
    assert len(values) >= 2
    for text in values:
        # Each image of ours has its tag; registry.k8s.io's kube-scheduler has none of ours.
        assert text.count('tag: "v9.8.7"') == text.count(f"repository: {NEW}\n")
        assert f'tag: "v{__version__}"' not in text


@pytest.mark.parametrize(
    ("words", "said"), [(["a b"], "'a b' is no registry and path"), ([NEW, "a b"], "'a b' is no tag, such as v0.1.0")]
)
def test_what_cannot_be_a_name_is_refused_and_nothing_is_changed(deploy: Path, words: list[str], said: str) -> None:
    done = change(deploy.parent, *words)
    assert (done.returncode, said in done.stderr) == (2, True), done
    assert FORMER in (deploy / "manifests/enflame/gcushare.yaml").read_text()
