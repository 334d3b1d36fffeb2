"""The packages and single files, carried alone; and ``make publish`` as a maintainer types it, with real tools.

The registry is docker-registry on this machine; images are built by buildah, charts pushed by helm.
"""

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
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import archives, packages, single_files

from gcushare._version import __version__
from tests.builders import present
from tests.charts import HELM, ROOT, pushed_images
from tests.playground.deploy_rig import Bench, needs_tools, put_image_tool
from tests.playground.installing import install
from tests.sharing import build_once

pytestmark = pytest.mark.slow

PLUGIN, EXTENDER = packages.PACKAGES
CHARTS = ("gcushare", "gcushare-device-plugin-chart", "gcushare-scheduler-extender-chart")
FILES_URL = "https://files.example/gcushare"
REGISTRY = shutil.which("docker-registry") or ""
PYTHON = Path(sys.base_prefix) / "bin" / "python3"


def run(*words: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run something with no variable of the environment but the PATH."""
    given = {"PATH": os.environ["PATH"], "HOME": str(cwd)} | environ
    return subprocess.run(words, cwd=cwd, env=given, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(params=packages.PACKAGES)
def carried(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A package as it is unpacked on another machine, with an image that was given along."""
    name: str = request.param
    images = tmp_path / "images"
    images.mkdir()
    (images / f"{name}.tar").write_bytes(b"an image")
    file = packages.pack(name, tmp_path, images, None)
    assert file.name == f"{name}_{__version__}.tar.gz"
    away = tmp_path / "away"
    with tarfile.open(file) as archive:
        archive.extractall(away, filter="data")
    return away / f"{name}_{__version__}"


def test_every_script_of_a_package_runs_alone(carried: Path) -> None:
    scripts = sorted(carried.glob("*.sh"))
    assert {path.name for path in scripts} >= {"build-image.sh", "deploy.sh", "delete.sh"}
    for script in scripts:
        done = run(script, "--help", cwd=carried)
        assert (done.returncode, done.stderr, done.stdout.startswith("Usage: ")) == (0, "", True), script


def test_a_package_has_its_chart_its_image_and_its_programs(carried: Path) -> None:
    name = carried.name.rpartition("_")[0]
    assert (carried / f"{name}-chart" / "Chart.yaml").is_file()
    assert (carried / "images" / f"{name}.tar").read_bytes() == b"an image"
    programs = dict(packages.programs_of(name))
    assert programs[name] == name
    for program, at in programs.items():
        done = run(f"./{at}", "--version", cwd=carried)
        assert done.stdout == f"{program.replace('kubectl-inspect-', 'kubectl inspect ')} {__version__}\n"


def test_the_extenders_package_has_the_commands_for_machines_with_and_without_python(tmp_path: Path) -> None:
    names = (*packages.INSPECT, "gcushare-linux-amd64", "gcushare-linux-arm64")
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    file = packages.pack(EXTENDER, tmp_path, None, tmp_path)
    with tarfile.open(file) as archive:
        for name in names:
            assert present(archive.extractfile(f"{EXTENDER}_{__version__}/{name}")).read() == name.encode()
        listed = archive.getnames()
    assert {f"{EXTENDER}_{__version__}/from-image/{name}" for name in packages.INSPECT} <= set(listed)


def test_the_same_sources_give_the_same_package_and_chart_on_another_day_and_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the build, the files' own times and the umask of the checkout are not in them."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    sums, package = set(), Path()
    for number, (mode, when) in enumerate([(0o644, 1_600_000_000), (0o664, 1_650_000_000)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in packages.INSPECT:
            (folder / name).write_bytes(b"x")
            (folder / name).chmod(mode | 0o111)
            os.utime(folder / name, (when, when))
        package = packages.pack(EXTENDER, folder, None, folder)
        helms = folder / "chart.tgz"
        with tarfile.open(helms, "w:gz") as archive:
            for name in ("b", "a") if number else ("a", "b"):
                entry = tarfile.TarInfo(f"chart/{name}")
                entry.mtime, entry.mode = when, mode
                archive.addfile(entry)
        archives.write(helms, archives.read(helms))
        sums.add((hashlib.sha256(package.read_bytes()).hexdigest(), hashlib.sha256(helms.read_bytes()).hexdigest()))
    assert len(sums) == 1
    with tarfile.open(package) as archive:
        assert {(each.mtime, each.uname) for each in archive} == {(1700000000, "root")}


def test_the_programs_of_a_release_run_its_own_images(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    for name in ("deploy", "src/gcushare", "scripts"):
        shutil.copytree(packages.ROOT / name, root / name, symlinks=True)
    for name in ("pyproject.toml", "constraints.txt", "hashes.txt", "LICENSE", ".dockerignore"):
        shutil.copy(packages.ROOT / name, root / name)
    for values in root.glob("deploy/*/build-and-deploy/*-chart/values.yaml"):
        values.write_text(values.read_text().replace(f'tag: "v{__version__}"', 'tag: "v9.8.7"'))
    done = run(sys.executable, "-m", "scripts.packages", "out", cwd=root, PYTHONPATH=f"{root}:{root / 'src'}")
    assert done.returncode == 0, done.stderr
    with tarfile.open(root / "out" / f"{PLUGIN}_{__version__}.tar.gz") as archive:
        program = present(archive.extractfile(f"{PLUGIN}_{__version__}/{PLUGIN}"))
        assert f"/{PLUGIN}:${{GCUSHARE_TAG:-v9.8.7}}" in program.read().decode()
    with tarfile.open(root / "out" / f"{EXTENDER}_{__version__}.tar.gz") as archive:
        for name, file in ((PLUGIN, "device-plugin-ds.yaml"), (EXTENDER, "config/gpushare-schd-extender.yaml")):
            manifest = present(archive.extractfile(f"{EXTENDER}_{__version__}/gpushare/{file}"))
            assert f'image: "{packages.image_value(name, "repository")}/{name}:v9.8.7"' in manifest.read().decode()


def test_an_image_is_built_from_what_the_package_carries(carried: Path, tmp_path: Path) -> None:
    name = carried.name.rpartition("_")[0]
    tools, log = tmp_path / "bin", tmp_path / "calls"
    put_image_tool(tools, "docker")
    environ = {"IMAGE_TOOL_LOG": str(log), "IMAGE_TOOL_FAILS": str(tmp_path / "none")}
    done = run("./build-image.sh", cwd=carried, PATH=f"{tools}:{os.environ['PATH']}", **environ)
    assert done.returncode == 0, done.stderr
    (build,) = (line for line in log.read_text().splitlines() if line.startswith("docker build "))
    context = Path(build.split()[-1])
    assert context == carried / "source"
    dockerfile = context / "deploy/image/Dockerfile"
    copied = [line.split()[1:-1] for line in dockerfile.read_text().splitlines() if line.startswith("COPY ")]
    for each in (path for paths in copied for path in paths if not path.startswith(("--", "/"))):
        assert (context / each).exists(), each
    assert name in build


@needs_tools
async def test_a_package_alone_loads_its_image_installs_its_chart_and_takes_it_away(
    carried: Path, bench: Bench
) -> None:
    name = carried.name.rpartition("_")[0]
    bench.fail_once("docker push")
    words = ("--nodes", "all") if name == PLUGIN else ("--scheduler-mode", "none")
    done = await bench.run_script(carried / "deploy.sh", *words)
    assert done.code == 0, done
    assert "push images to repo failed, will load operator image to all nodes\n" in done.out
    assert f"docker load --input {carried}/images/{name}.tar" in bench.calls
    assert any("images import -" in call for call in bench.calls)
    kind = "daemonsets.apps" if name == PLUGIN else "deployments.apps"
    assert bench.site.names(kind) == {name}
    deleted = await bench.run_script(carried / "delete.sh")
    assert deleted.code == 0, deleted
    assert bench.site.names(kind) == set()


def build_single_files(folder: Path) -> None:
    project = tomllib.loads((packages.ROOT / "pyproject.toml").read_text())["project"]
    installed = install(folder, project["dependencies"])
    for command in single_files.COMMANDS:
        single_files.build(command, installed, folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_once(tmp_path_factory, "single-files", build_single_files)


@pytest.mark.parametrize("command", single_files.COMMANDS)
def test_a_single_file_runs_with_a_python_that_knows_nothing_of_us(files: Path, command: str, tmp_path: Path) -> None:
    path = f"{PYTHON.parent}:/usr/bin:/bin"
    reported = run(files / command, "--version", cwd=tmp_path, PATH=path)
    assert (reported.stdout, reported.stderr) == (
        f"{command.replace('kubectl-inspect-', 'kubectl inspect ')} {__version__}\n",
        "",
    )
    refused = run(files / command, "--kubeconfig", "/nowhere", cwd=tmp_path, PATH=path)
    assert (refused.returncode, "/nowhere" in refused.stderr) == (2, True), refused.stderr


def test_a_single_file_holds_no_library_of_the_cluster_side(files: Path) -> None:
    installed = {path.name.partition("-")[0].lower() for path in (files / "packages").iterdir()}
    assert not installed & {"grpc", "grpcio", "uvloop", "cryptography", "pynvml"}


def pushing_helm() -> str:
    """A helm that pushes charts, from 3.8 on; empty if there is none."""
    for helm in (os.environ.get("HELM_FOR_PUSH", ""), HELM):
        if helm and subprocess.run([helm, "push", "--help"], capture_output=True).returncode == 0:
            return helm
    return ""


needs_registry = pytest.mark.skipif(
    os.geteuid() != 0 or not REGISTRY or not shutil.which("buildah") or not pushing_helm(),
    reason="needs root, buildah, docker-registry (apt-get install buildah docker-registry) and helm 3.8 or later "
    "on PATH or in HELM_FOR_PUSH",
)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """An empty registry that speaks HTTP."""
    with socket.socket() as holder:
        # Silent, so that no one else on this machine gets the port before the registry listens.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        config = tmp_path / "registry.json"
        storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}}
        config.write_text(json.dumps({"version": 0.1, "storage": storage, "http": {"addr": address}}))
        with subprocess.Popen(
            [REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
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


def said_by(*words: str | Path, environ: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run(words, env=environ, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


# Two images are built, with their packages from the registry of packages.
@pytest.mark.timeout(1200)
@needs_registry
def test_one_command_brings_everything_to_a_registry(
    registry: str, environment: dict[str, str], tmp_path: Path
) -> None:
    said_by("scripts/base_image.sh", "localhost/base:here", sys.executable, environ=environment)
    before = said_by("git", "status", "--porcelain", environ=environment)
    where, out = f"{registry}/team/gcushare", tmp_path / "dist"
    options = f"--tool buildah --python-image localhost/base:here --plain-http --out {out}"
    # The environment of this test run is up to date; make would look at the times of files.
    make = ["make", "--old-file=.venv/.installed", "publish", f"REGISTRY={where}", f"FILES_URL={FILES_URL}"]
    said = said_by(*make, f"ARGS={options}", environ=environment)
    assert said_by("git", "status", "--porcelain", environ=environment) == before
    assert f"helm install gcushare oci://{where}/charts/gcushare --version {__version__}" in said

    for name in packages.PACKAGES:
        assert listed(registry, f"team/gcushare/{name}/tags/list") == {
            "name": f"team/gcushare/{name}",
            "tags": [f"v{__version__}"],
        }
    images = pushed_images(where)
    for chart in CHARTS:
        words = [pushing_helm(), "template", "x", f"oci://{where}/charts/{chart}", "--version", __version__]
        rendered = said_by(*words, "--plain-http", environ=environment, cwd=tmp_path)
        named = set(re.findall(r"image: \"?([^\s\"]+)", rendered))
        assert named <= images, chart
        assert named, chart

    check_files(out, where, images)
    (executable,) = out.glob("gcushare-linux-*[!z]")
    environ = {"PATH": "/nonexistent", "GCUSHARE_CACHE": str(tmp_path / "cache")}
    assert said_by(executable, "kubectl-inspect-gcushare", "--version", environ=environ).endswith(f"{__version__}\n")


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
    for name in packages.PACKAGES:
        top = f"{name}_{__version__}"
        with tarfile.open(out / f"{top}.tar.gz") as package:
            saved = present(package.extractfile(f"{top}/images/{name}.tar"))
            with tarfile.open(fileobj=saved) as archive:
                manifest = present(archive.extractfile("manifest.json"))
                assert json.load(manifest)[0]["RepoTags"] == [f"{where}/{name}:v{__version__}"]


@needs_registry
def test_it_refuses_a_folder_with_files_before_anything_is_done(environment: dict[str, str]) -> None:
    make = ["make", "--old-file=.venv/.installed", "publish", "REGISTRY=registry.local/x", "ARGS=--out docs"]
    done = subprocess.run(make, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (2, []), done
    assert "error: the folder docs is not empty" in done.stderr
