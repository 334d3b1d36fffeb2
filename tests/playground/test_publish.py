"""``make publish`` as a maintainer types it, to a registry on this machine: real buildah, helm and docker-registry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gcushare._version import __version__
from tests.charts import HELM, ROOT, pushed_images

NAMES = ("gcushare-device-plugin", "gcushare-scheduler-extender")
CHARTS = ("gcushare", "gcushare-device-plugin-chart", "gcushare-scheduler-extender-chart")
FILES_URL = "https://files.example/gcushare"
REGISTRY = shutil.which("docker-registry") or ""


def pushing_helm() -> str:
    """A helm that pushes charts, from 3.8 on; empty if there is none."""
    for helm in (os.environ.get("HELM_FOR_PUSH", ""), HELM):
        if helm and subprocess.run([helm, "push", "--help"], capture_output=True).returncode == 0:
            return helm
    return ""


pytestmark = [
    pytest.mark.slow,
    # Two images are built, with their packages from the registry of packages.
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        os.geteuid() != 0 or not REGISTRY or not shutil.which("buildah") or not pushing_helm(),
        reason="needs root, buildah, docker-registry (apt-get install buildah docker-registry) and helm 3.8 or later "
        "on PATH or in HELM_FOR_PUSH",
    ),
]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """An empty registry that speaks HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = tmp_path / "registry.json"
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}
    config.write_text(json.dumps({"version": 0.1, "storage": storage, "http": {"addr": address}}))
    with subprocess.Popen([REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while not is_served(address):
                assert process.poll() is None, "docker-registry ended"
                assert time.monotonic() < deadline, "docker-registry does not answer"
            yield address
        finally:
            process.terminate()


def is_served(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def listed(address: str, path: str) -> object:
    with urllib.request.urlopen(f"http://{address}/v2/{path}", timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def environment(tmp_path: Path, registry: str) -> dict[str, str]:
    """Where buildah keeps its images, and that it may speak HTTP to the registry."""
    storage, registries = tmp_path / "storage.conf", tmp_path / "registries.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/store"\nrunroot = "{tmp_path}/run"\n')
    registries.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HELM": pushing_helm(),
        "BUILDAH_ISOLATION": "chroot",
        "CONTAINERS_STORAGE_CONF": str(storage),
        "CONTAINERS_REGISTRIES_CONF": str(registries),
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http"))},
    }


def run(*words: str | Path, environ: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run(words, env=environ, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_one_command_brings_everything_to_a_registry(
    registry: str, environment: dict[str, str], tmp_path: Path
) -> None:
    run("scripts/base_image.sh", "localhost/base:here", sys.executable, environ=environment)
    before = run("git", "status", "--porcelain", environ=environment)
    where, out = f"{registry}/team/gcushare", tmp_path / "dist"
    options = f"--tool buildah --python-image localhost/base:here --plain-http --out {out}"
    # The environment of this test run is up to date; make would look at the times of files.
    make = ["make", "--old-file=.venv/.installed", "publish", f"REGISTRY={where}", f"FILES_URL={FILES_URL}"]
    said = run(*make, f"ARGS={options}", environ=environment)
    assert run("git", "status", "--porcelain", environ=environment) == before
    assert f"helm install gcushare oci://{where}/charts/gcushare --version {__version__}" in said

    for name in NAMES:
        assert listed(registry, f"team/gcushare/{name}/tags/list") == {
            "name": f"team/gcushare/{name}",
            "tags": [f"v{__version__}"],
        }
    images = pushed_images(where)
    for chart in CHARTS:
        words = [pushing_helm(), "template", "x", f"oci://{where}/charts/{chart}", "--version", __version__]
        rendered = run(*words, "--plain-http", environ=environment, cwd=tmp_path)
        named = set(re.findall(r"image: \"?([^\s\"]+)", rendered))
        assert named <= images, chart
        assert named, chart

    check_files(out, where, images)
    (executable,) = out.glob("gcushare-linux-*[!z]")
    environ = {"PATH": "/nonexistent", "GCUSHARE_CACHE": str(tmp_path / "cache")}
    assert run(executable, "kubectl-inspect-gcushare", "--version", environ=environ).endswith(f"{__version__}\n")


def check_files(out: Path, where: str, images: set[str]) -> None:
    """Every file of a release is there, has its checksum, and names the images that were pushed."""
    lines = (line.split(maxsplit=1) for line in (out / "SHA256SUMS").read_text().splitlines())
    sums = {name: checksum for checksum, name in lines}
    files = {path.name for path in out.iterdir()} - {"SHA256SUMS"}
    assert sums == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files}
    plain = {"device-plugin-ds.yaml", "gpushare-schd-extender.yaml"}
    plain |= {
        f"gcushare-{vendor}{part}.yaml"
        for vendor in ("enflame", "aliyun")
        for part in ("", "-claims", "-before-delete", "-after-delete")
    }
    assert {"gcushare-enflame-admission.yaml", "gcushare-aliyun-admission.yaml"} <= files, "it names no image"
    assert plain | {"kubectl-inspect-gcushare", "inspect-gcushare.yaml", "inspect-gpushare.yaml"} <= files
    for name in plain:
        named = set(re.findall(r"[\w.:/-]+/gcushare-[a-z-]+:[\w.-]+", (out / name).read_text()))
        assert named <= images, name
        assert named, name
    for name in NAMES:
        top = f"{name}_{__version__}"
        with tarfile.open(out / f"{top}.tar.gz") as package:
            saved = package.extractfile(f"{top}/images/{name}.tar")
            assert saved is not None
            with tarfile.open(fileobj=saved) as archive:
                manifest = archive.extractfile("manifest.json")
                assert manifest is not None
                assert json.load(manifest)[0]["RepoTags"] == [f"{where}/{name}:v{__version__}"]


def test_it_refuses_a_folder_with_files_before_anything_is_done(environment: dict[str, str]) -> None:
    make = ["make", "--old-file=.venv/.installed", "publish", "REGISTRY=registry.local/x", "ARGS=--out docs"]
    done = subprocess.run(make, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (2, []), done
    assert "error: the folder docs is not empty" in done.stderr
