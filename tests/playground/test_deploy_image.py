"""The images' contents, without a container engine: the Dockerfile is read, and its steps done here.

make-root.sh builds the very root that the Dockerfile copies into an empty image, from this Python; the programs are
then started in it by chroot. Not covered: pulling the base image, and installing the dependencies from a registry.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gcushare._version import __version__
from tests.charts import DEPLOY, EXTENDER_PACKAGE, PLUGIN_PACKAGE, ROOT
from tests.playground.installing import EPOCH, build_image
from tests.sharing import build_once

pytestmark = pytest.mark.slow

DOCKERFILE = DEPLOY / "image/Dockerfile"
MANUAL_SIZE_MB = 130
"""Of the extender's image, the smaller of the manual's two; ours have the same contents."""
PROGRAMS = ("gcushare-device-plugin", "gcushare-scheduler-extender", "gcushare-config-manager")
CHROOT = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not CHROOT, reason="starting programs in another root needs root and chroot: run as root"
)


def instructions() -> list[list[str]]:
    """The Dockerfile's instructions as words."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_every_base_image_is_pinned_by_version() -> None:
    (default,) = [words[1].split("=", 1)[1] for words in instructions() if words[1].startswith("PYTHON_IMAGE=")]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm", default)
    stages = {words[3] for words in instructions() if words[0] == "FROM"}
    bases = {words[1] for words in instructions() if words[0] == "FROM"}
    assert bases - stages == {"${PYTHON_IMAGE}", "scratch"}


def test_the_packages_build_the_stages_that_there_are() -> None:
    stages = {words[3] for words in instructions() if words[0] == "FROM"}
    for package in (PLUGIN_PACKAGE, EXTENDER_PACKAGE):
        name = re.search(r"^name=(\S+)", (package / "build-image.sh").read_text(), re.MULTILINE)
        assert name is not None
        assert name[1] in stages


def test_what_is_copied_is_there_and_let_through_to_the_build() -> None:
    sources = [
        word for words in instructions() if words[0] == "COPY" and "--from" not in words[1] for word in words[1:-1]
    ]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


def test_the_extender_does_not_run_as_root() -> None:
    words = instructions()
    start = next(i for i, each in enumerate(words) if each[-1] == "gcushare-scheduler-extender" and each[0] == "FROM")
    assert ["USER", "65532:65532"] in words[start:]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the images, from this environment's packages."""
    return build_once(tmp_path_factory, "image", build_image) / "root"


def is_debians_own(python: Path) -> bool:
    """Whether this is Debian's Python, of the version that the packages here are compiled for."""
    code = "import site, sys; print(sys.version_info[:2], site.getsitepackages()[-1])"
    if not python.exists():
        return False
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.startswith(f"{sys.version_info[:2]} ") and done.stdout.endswith("/dist-packages\n")


def inside(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run something in the image's root, as a user that is not root."""
    return subprocess.run(
        [CHROOT, "--userspec=65532:65532", root, *words],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@needs_root
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_start_in_the_image(image: Path, program: str) -> None:
    done = inside(image, program, "--version")
    assert (done.stdout, done.stderr) == (f"{program} {__version__}\n", "")


@needs_root
@pytest.mark.skipif(
    not is_debians_own(Path("/usr/bin/python3")),
    reason="needs Debian's own Python of the version that runs here: apt-get install python3",
)
def test_they_start_in_an_image_with_the_python_of_debian(image: Path, tmp_path: Path) -> None:
    words = [
        "sh",
        str(DEPLOY / "image/make-root.sh"),
        str(image.parent / "packages"),
        str(tmp_path / "root"),
        str(EPOCH),
    ]
    subprocess.run(words, env={**os.environ, "PYTHON": "/usr/bin/python3"}, check=True, timeout=120)
    for program in PROGRAMS:
        done = inside(tmp_path / "root", program, "--version")
        assert (done.stdout, done.stderr) == (f"{program} {__version__}\n", "")


@needs_root
def test_everything_that_the_programs_import_is_in_the_image(image: Path) -> None:
    modules = (
        "grpc aiohttp uvloop ssl msgspec ruamel.yaml google.protobuf watchfiles pynvml prometheus_client urllib.request"
    )
    own = ("gcushare.cli.uninstall.__main__", "gcushare.scheduler_extender.mutual_tls.issuing")
    done = inside(image, "python3", "-c", f"import {', '.join((*modules.split(), *own))}")
    assert (done.returncode, done.stderr) == (0, "")


def test_there_is_no_shell_and_no_package_manager(image: Path) -> None:
    names = {path.name for folder in ("bin", "usr/bin", "usr/local/bin") for path in (image / folder).glob("*")}
    assert not names & {"sh", "bash", "busybox", "pip", "pip3", "apt", "dpkg"}


def test_the_image_is_not_larger_than_the_manuals(image: Path) -> None:
    files = [path for path in image.rglob("*") if path.is_file() and not path.is_symlink()]
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    assert size_mb < MANUAL_SIZE_MB


def test_the_image_is_dated_by_the_sources_and_compiled_without_dates(image: Path) -> None:
    assert {int(path.lstat().st_mtime) for path in image.rglob("*")} == {EPOCH}
    (compiled,) = (image / "usr/local/lib").glob("python3.*/site-packages/gcushare/__pycache__/_version.*.pyc")
    # PEP 552: bit 0 says that the file is found valid by its source's hash, bit 1 whether that is checked.
    assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1


def test_no_part_for_laptops_and_tests_is_in_the_image(image: Path) -> None:
    names = {path.name for path in (image / "usr/local/lib").glob("python3.*/site-packages/*")}
    assert not names & {"pytest", "mypy", "pip", "setuptools", "hypothesis"}


def test_a_python_that_does_not_find_the_package_stops_the_build(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    (packages / "gcushare").mkdir(parents=True)
    (packages / "gcushare/__init__.py").write_text("raise ImportError('not for this Python')\n")
    (packages / "gcushare-1.dist-info").mkdir()
    (packages / "gcushare-1.dist-info" / "METADATA").write_text("Name: gcushare\nVersion: 1\n")
    words = ["sh", *map(str, (DEPLOY / "image/make-root.sh", packages, tmp_path / "root", EPOCH))]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "does not find the package gcushare" in done.stderr) == (1, True), done.stderr


def test_a_library_that_is_not_there_stops_the_build_by_its_name(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler for a library that loads another: install cc (gcc or clang)")
    packages = tmp_path / "packages" / "gcushare"
    packages.mkdir(parents=True)
    (packages.parent / "gcushare-1.dist-info").mkdir()
    (packages.parent / "gcushare-1.dist-info" / "METADATA").write_text("Name: gcushare\nVersion: 1\n")
    source, gone = tmp_path / "empty.c", tmp_path / "libgone.so"
    source.write_text("int nothing(void) { return 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", gone, source], check=True)
    loads = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lgone"]
    subprocess.run([compiler, "-shared", "-fPIC", "-o", packages / "part.so", source, *loads], check=True)
    gone.unlink()
    words = ["sh", *map(str, (DEPLOY / "image/make-root.sh", packages.parent, tmp_path / "root", EPOCH))]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "lacks libraries that the packages load: libgone.so" in done.stderr) == (1, True), (
        done.stderr
    )
