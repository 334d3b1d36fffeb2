"""What the documents have people install after ``make publish`` is what it pushed: its charts and images alone."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from gcushare._version import __version__
from gcushare.vendors import VENDORS
from tests.charts import (
    CHARTS,
    NEWEST,
    ROOT,
    Object,
    containers,
    helm,
    in_one_worker,
    load_objects,
    needs_helm,
    pod_specs,
    pushed_images,
    render_everything,
)
from tests.documents import Document, every_document

pytestmark = [needs_helm, in_one_worker]

REGISTRY = "registry.no-one.example:5000/team/cards"
INSTALL = f"helm install gcushare oci://{REGISTRY}/charts/gcushare --namespace kube-system"
"""The one line, to which a page may add values."""
IGNORED = {"--install", "--reuse-values", "--reset-then-reuse-values"}
"""Flags that ``helm template`` does not know."""
KUBE_SCHEDULER = re.compile(r"registry\.k8s\.io/kube-scheduler:v\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Published:
    """A checkout that names the registry, as ``make publish`` makes one, and the charts that it pushes by their URL."""

    checkout: Path
    charts: dict[str, Path]

    def documents(self) -> list[Document]:
        return [Document.read(path) for path in (*self.checkout.glob("*.md"), *self.checkout.glob("docs/**/*.md"))]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    checkout = tmp_path_factory.mktemp("published")
    for name in ("deploy", "docs"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("images"))
    for readme in ROOT.glob("README*.md"):
        shutil.copy(readme, checkout)
    words = ("scripts/change_repository.sh", REGISTRY, str(checkout), f"v{__version__}")
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=120)
    charts = {}
    for chart in CHARTS:
        done = helm("package", "--destination", str(checkout / "dist"), str(checkout / chart.relative_to(ROOT)))
        assert done.returncode == 0, done.stderr
        charts[f"oci://{REGISTRY}/charts/{chart.name}"] = checkout / f"dist/{chart.name}-{__version__}.tgz"
    return Published(checkout, charts)


def commands(document: Document) -> Iterator[tuple[str, str]]:
    """Every command line of a page, in blocks and in spans, each with the text before it."""
    texts = [block.text for block in document.blocks()] + document.indented() + document.spans()
    for text in texts:
        for line in re.sub(r"\\\n *", "", text).splitlines():
            yield line.strip().removeprefix("$ "), document.text.partition(text)[0]


def helm_commands(document: Document) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The charts of ours that a page installs, and with which options; the page's last YAML is the file of values."""
    for line, before in commands(document):
        if re.match(r"helm (install|upgrade|template) .*gcushare", line):
            _, _, *words = (word for word in shlex.split(line, comments=True) if word not in IGNORED)
            values = re.findall(r"```yaml\n(.*?)```", before, re.DOTALL)
            yield words[1], tuple(values[-1] if word.endswith(".yaml") else word for word in words[2:])


def images(objects: list[Object]) -> set[str]:
    return {container["image"] for spec in pod_specs(objects).values() for container in containers(spec)}


@cache
def rendered_images(chart: Path, *given: str) -> set[str]:
    """The images of ours that a chart names with these options, in which ``--values`` has the file's text behind it."""
    version = () if "--kube-version" in given else ("--kube-version", NEWEST)
    words = ["-" if before == "--values" else word for before, word in zip(("", *given), given, strict=False)]
    values = next((word for word in given if "\n" in word), None)
    done = helm("template", "x", str(chart), *version, *words, stdin=values)
    assert done.returncode == 0, (given, done.stderr)
    return {image for image in images(load_objects(done.stdout)) if not KUBE_SCHEDULER.fullmatch(image)}


@pytest.mark.slow
def test_every_helm_command_installs_what_was_pushed(published: Published) -> None:
    pages = {}
    for document in published.documents():
        for chart, given in helm_commands(document):
            assert chart in published.charts, f"{document.path.name}: {chart} was not pushed"
            pages[document.path.name, *given] = rendered_images(published.charts[chart], *given)
    pushed = pushed_images(REGISTRY)
    assert {page: named for page, named in pages.items() if not named or named - pushed} == {}
    assert len({page for page, *_ in pages}) >= 7


def test_every_page_has_the_same_line_to_install_by(published: Published) -> None:
    lines = [line for each in published.documents() for line, _ in commands(each) if line.startswith("helm install ")]
    assert [line for line in lines if not line.startswith(INSTALL)] == []
    assert len(lines) >= 12


def test_every_page_that_installs_labels_a_node_too() -> None:
    """Without the vendor's label no plugin comes to a node, whatever else the page labels it with."""
    labels = {f"{vendor.label_key}=true" for vendor in VENDORS}
    pages = {document: {line for line, _ in commands(document)} for document in every_document()}
    missing = {
        document.name
        for document, lines in pages.items()
        if any(line.startswith("helm install gcushare ") for line in lines)
        and not any(line.startswith("kubectl label node ") and labels & {*line.split()} for line in lines)
    }
    assert missing == set()


@pytest.mark.parametrize("name", ["docs/install.md", "docs/zh/install.md"])
def test_what_flux_and_argo_cd_are_given_names_what_was_pushed(published: Published, name: str) -> None:
    blocks = [dedent(block) for block in Document.read(published.checkout / name).indented() if "apiVersion: " in block]
    objects = {each["kind"]: each for block in blocks for each in load_objects(block)}
    flux, source = objects["HelmRelease"]["spec"], objects["HelmRepository"]
    assert flux["chart"]["spec"]["sourceRef"]["name"] == source["metadata"]["name"]
    argo = objects["Application"]["spec"]["source"]
    for chart, values in (
        (f"{source['spec']['url']}/{flux['chart']['spec']['chart']}", flux["values"]),
        (f"oci://{argo['repoURL']}/{argo['chart']}", argo["helm"]["valuesObject"]),
    ):
        named = rendered_images(published.charts[chart], "--values", f"{json.dumps(values)}\n")
        assert named == pushed_images(REGISTRY)


def test_every_plain_manifest_names_what_was_pushed(published: Published) -> None:
    """That ``dist/`` has these files is seen where it is made: tests/playground/test_packages.py."""
    files = {
        word
        for document in published.documents()
        for line, _ in commands(document)
        if line.startswith("kubectl ")
        for word in line.split()
        if word.startswith(("dist/", "deploy/manifests/"))
    }
    assert len(files) >= 4
    for file in files:
        vendor, _, part = file.removeprefix("dist/gcushare-").removesuffix(".yaml").partition("-")
        manifest = published.checkout / f"deploy/manifests/{vendor}/{part or 'gcushare'}.yaml"
        assert images(load_objects(manifest.read_text())) <= pushed_images(REGISTRY), file


@pytest.mark.slow
def test_one_value_names_the_images_as_they_were_pushed() -> None:
    secrets = ("global.imagePullSecrets[0]=a", "global.imagePullSecrets[1].name=b")
    mine = ("gcushare-device-plugin-chart.imagePullSecrets[0].name=a", f"global.imageRegistry={REGISTRY}/")
    for objects in render_everything(*mine, *secrets).values():
        for name, spec in pod_specs(objects).items():
            assert spec["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}], name
        named = {image for image in images(list(objects)) if not KUBE_SCHEDULER.fullmatch(image)}
        assert named == pushed_images(REGISTRY)
