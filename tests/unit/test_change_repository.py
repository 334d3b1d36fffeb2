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
EXAMPLE = "registry.local/gcushare"
"""What documents have their readers replace."""
NEW = "registry.local:5000/team/gcushare"
CHART_VALUES = "gcushare-device-plugin/build-and-deploy/gcushare-device-plugin-chart/values.yaml"
IMAGE = re.compile(r"[\w.:/-]+/gcushare-[a-z-]+:[\w.-]+")


def copy_checkout(folder: Path) -> Path:
    """Copy what names images, as in a checkout: charts, manifests, documents; returns the folder of the first two."""
    for name in ("deploy", "docs"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("images"))
    for name in ("README.md", "README.zh-CN.md"):
        shutil.copy(ROOT / name, folder)
    return folder / "deploy"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout for what changes nothing."""
    return copy_checkout(tmp_path_factory.mktemp("untouched"))


def change(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words[:1], folder, *words[1:]], capture_output=True, text=True, timeout=60, check=False
    )


def test_charts_and_manifests_name_the_repository_and_the_tag(deploy: Path) -> None:
    done = change(deploy.parent, NEW, "v9.8.7")
    assert (done.returncode, done.stdout) == (0, f"images are at {NEW}, with the tag v9.8.7\n"), done.stderr
    texts = {path: path.read_text() for path in deploy.rglob("*.yaml") if path.is_file()}
    assert [path for path, text in texts.items() if FORMER in text] == []
    documents = [path.read_text() for path in (*deploy.parent.glob("*.md"), *deploy.parent.rglob("docs/**/*.md"))]
    assert [text for text in documents if FORMER in text or EXAMPLE in text] == []
    assert sum(f"oci://{NEW}/charts/gcushare" in text for text in documents) > 8
    named = {image for path, text in texts.items() if "manifests" in path.parts for image in IMAGE.findall(text)}
    assert named == {f"{NEW}/{name}:v9.8.7" for name in ("gcushare-device-plugin", "gcushare-scheduler-extender")}
    values = [text for path, text in texts.items() if path.name == "values.yaml" and NEW in text]
    assert len(values) >= 2
    for text in values:
        # Each image of ours has its tag; registry.k8s.io's kube-scheduler has none of ours.
        assert text.count('tag: "v9.8.7"') == text.count(f"repository: {NEW}\n")
        assert f'tag: "v{__version__}"' not in text


@pytest.mark.slow
def test_a_second_change_begins_where_the_first_one_ended(deploy: Path) -> None:
    for name in (f"{EXAMPLE}/first", "[fd00::1]:5000/second", "[fd00::1]:5000/second"):
        assert change(deploy.parent, name).returncode == 0
    assert "oci://[fd00::1]:5000/second/charts/gcushare --" in (deploy.parent / "docs/quick-start.md").read_text()
    assert "repository: [fd00::1]:5000/second\n" in (deploy / CHART_VALUES).read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            ([name], f"'{name}' is no registry and path")
            for name in (
                *("a b", "", "https://registry.local/x", "registry.local//x", "registry.local/x/"),
                *("registry.local/Team/x", "registry.local:port/x", "registry.local/x:v1", "registry.local/../x"),
            )
        ),
        ([NEW, "a b"], "'a b' is no tag, such as v0.1.0"),
    ],
)
def test_what_cannot_be_a_name_is_refused_and_nothing_is_changed(untouched: Path, words: list[str], said: str) -> None:
    done = change(untouched.parent, *words)
    assert (done.returncode, said in done.stderr) == (2, True), done
    assert FORMER in (untouched / "manifests/enflame/gcushare.yaml").read_text()
