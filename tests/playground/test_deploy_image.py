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
from scripts import sbom
from scripts.executables import read_image

from gcushare._version import __version__
from tests.charts import DEPLOY, ROOT
from tests.playground.installing import EPOCH, build_image, save_image
from tests.sharing import build_once

pytestmark = pytest.mark.slow

DOCKERFILE = DEPLOY / "image/Dockerfile"
PROGRAMS = ("gcushare-device-plugin", "gcushare-scheduler-extender", "gcushare-config-manager")
CHROOT = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not CHROOT, reason="starting programs in another root needs root and chroot: run as root"
)


def instructions() -> list[list[str]]:
    """The Dockerfile's instructions as words."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


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
    modules = "grpc aiohttp uvloop ssl msgspec ruamel.yaml google.protobuf pynvml prometheus_client urllib.request"
    own = ("gcushare.cli.uninstall.__main__", "gcushare.scheduler_extender.mutual_tls.issuing")
    done = inside(image, "python3", "-c", f"import {', '.join((*modules.split(), *own))}")
    assert (done.returncode, done.stderr) == (0, "")


def test_there_is_no_shell_and_no_package_manager(image: Path) -> None:
    names = {path.name for folder in ("bin", "usr/bin", "usr/local/bin") for path in (image / folder).glob("*")}
    assert not names & {"sh", "bash", "busybox", "pip", "pip3", "apt", "dpkg"}


def test_the_image_is_dated_by_the_sources_and_compiled_without_dates(image: Path) -> None:
    assert {int(path.lstat().st_mtime) for path in image.rglob("*")} == {EPOCH}
    (compiled,) = (image / "usr/local/lib").glob("python3.*/site-packages/gcushare/__pycache__/_version.*.pyc")
    # PEP 552: bit 0 says that the file is found valid by its source's hash, bit 1 whether that is checked.
    assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="needs a Debian: the image's libraries are of its packages")
def test_scanners_find_the_packages_of_the_libraries_and_people_their_licences(image: Path, tmp_path: Path) -> None:
    packages = {path.name for path in (image / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libgcc-s1"} <= packages
    assert any(name.startswith("libssl3") for name in packages)
    assert {path.parent.name for path in image.glob("usr/share/doc/*/copyright")} == packages
    assert (image / "etc/os-release").read_text() == Path("/etc/os-release").read_text()
    save_image(image, tmp_path / "image.tar", "amd64")
    listed = str(sbom.describe(read_image(tmp_path / "image.tar")))
    python = ".".join(map(str, sys.version_info[:3]))
    wanted = (f"pkg:generic/python@{python}", "pkg:pypi/grpcio@", "pkg:deb/debian/libc6@")
    assert [each for each in wanted if each not in listed] == []
    assert str(ROOT) not in listed


def test_no_part_for_laptops_and_tests_is_in_the_image(image: Path) -> None:
    names = {path.name for path in (image / "usr/local/lib").glob("python3.*/site-packages/*")}
    assert not names & {"pytest", "mypy", "pip", "setuptools", "hypothesis"}
