"""The images' contents, without a container engine, and the commands that run from them where there is no Python.

The Dockerfile is read, and its steps are done here: make-root.sh builds the very root that it copies into an empty
image, from this Python; programs are started in it by chroot. Not covered: pulling the base image, and installing the
dependencies from a registry. The executables and the scripts carry the C library too, so that a root with nothing but
busybox stands for every older distribution.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripts import executables, packages, sbom

from gcushare._version import __version__
from tests.charts import DEPLOY, ROOT
from tests.playground.deploy_rig import started_site
from tests.playground.installing import EPOCH, build_image, save_image
from tests.sharing import build_once
from tests.unit.apiserver_objects import node

pytestmark = pytest.mark.slow

MACHINE = {machine: name for name, machine in executables.MACHINES.items()}.get(platform.machine(), "amd64")
EXTENDER = "gcushare-scheduler-extender"
BUSYBOX = shutil.which("busybox") or ""
CHROOT = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""
TOOLS = "sh tail gzip tar id uname mkdir rm mv dirname readlink tr sed find sort sha256sum cut grep"
"""What the scripts call."""
SHOWN = {name: name.replace("kubectl-inspect-", "kubectl inspect ") for name in executables.COMMANDS[:2]}
UNIT = "[Service]\nExecStart=/usr/bin/kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf\n"


def build_files(root: Path, folder: Path) -> None:
    (folder / "images").mkdir()
    saved = folder / "images" / f"{EXTENDER}.tar"
    save_image(root, saved, MACHINE)
    executables.build(executables.read_image(saved), folder)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the images, from this environment's packages."""
    return build_once(tmp_path_factory, "image", build_image) / "root"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, image: Path) -> Path:
    """A folder with the saved image, in ``images``, and the executable."""
    return build_once(tmp_path_factory, "executables", functools.partial(build_files, image))


@pytest.fixture
def executable(built: Path) -> Path:
    return built / f"gcushare-linux-{MACHINE}"


def put_script(folder: Path, program: str) -> Path:
    folder.mkdir(exist_ok=True)
    script = folder / program
    script.write_text(packages.image_command(program, EXTENDER))
    script.chmod(0o755)
    return script


def run(*words: str | Path, cache: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run something without a Python on its PATH; an executable adds the usual folders of a host itself."""
    given = {"PATH": "/nonexistent", "GCUSHARE_CACHE": str(cache)} | environ
    return subprocess.run(words, env=given, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("command", list(SHOWN))
def test_under_the_name_of_a_command_it_is_that_command(executable: Path, command: str, tmp_path: Path) -> None:
    # krew's links have an underscore.
    for name in (command, command.replace("inspect-", "inspect_")):
        (tmp_path / name).symlink_to(executable)
        done = run(tmp_path / name, "--version", cache=tmp_path / "cache")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{SHOWN[command]} {__version__}\n", "")


def test_else_the_first_word_may_be_the_command(executable: Path, tmp_path: Path) -> None:
    done = run(executable, "gcushare-config-manager", "--version", cache=tmp_path)
    assert (done.stdout, done.stderr) == (f"gcushare-config-manager {__version__}\n", "")
    done = run(executable, "--version", cache=tmp_path)
    assert (done.stdout, done.stderr) == (f"gcushare {__version__}\n", "")


@pytest.mark.skipif(
    os.geteuid() != 0 or not CHROOT or not BUSYBOX or b"ld-linux" in Path(BUSYBOX).read_bytes()[:4096],
    reason="a root with nothing but busybox needs root, chroot and a static busybox: apt-get install busybox-static",
)
@pytest.mark.parametrize("with_image", [False, True], ids=["executable", "script with the image"])
def test_it_needs_no_python_and_no_c_library_of_the_host(built: Path, tmp_path: Path, with_image: bool) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(BUSYBOX, tmp_path / "bin/busybox")
    for tool in TOOLS.split():
        (tmp_path / "bin" / tool).symlink_to("busybox")
    if with_image:
        put_script(tmp_path / "package", "kubectl-inspect-gcushare")
        shutil.copytree(built / "images", tmp_path / "package/images")
    else:
        (tmp_path / "package").mkdir()
        shutil.copy(built / f"gcushare-linux-{MACHINE}", tmp_path / "package/kubectl-inspect-gcushare")
    program = ["/bin/sh", "/package/kubectl-inspect-gcushare"]
    environ = {"PATH": "/bin", "HOME": "/"}
    done = subprocess.run(
        [CHROOT, tmp_path, *program, "--kubeconfig", "/none"], env=environ, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: no kubeconfig found at '/none'")


async def test_the_executable_shows_a_cluster(executable: Path, tmp_path: Path) -> None:
    async with started_site(tmp_path) as site:
        site.server.registry.put(node("n1", capacity={"enflame.com/gcu-memory": "32", "enflame.com/gcu-count": "1"}))
        shown = await site.run(executable, "kubectl-inspect-gcushare", GCUSHARE_CACHE=str(tmp_path / "cache"))
        assert shown.code == 0, shown
        assert re.search(r"^n1 .* 0/32 ", shown.out, re.MULTILINE), shown


def test_the_executable_configures_the_scheduler_of_a_systemd_master(executable: Path, tmp_path: Path) -> None:
    unit = tmp_path / "kube-scheduler.service"
    unit.write_text(UNIT)
    place: list[str | Path] = ["--unit", unit, "--files-dir", tmp_path, "--kubernetes-dir", tmp_path]
    extender = ["--extender-url", "http://192.0.2.1:32766", "--scheduler-version", "v1.23.1"]
    for verb, words in (("apply", extender), ("recover", [])):
        done = run(executable, "gcushare-config-manager", verb, *place, *words, cache=tmp_path / "cache")
        assert done.returncode == 0, done
        configured = f"--config={tmp_path}/scheduler-extender-config-v1.23+.yaml" in unit.read_text()
        assert configured == (verb == "apply")
    assert unit.read_text() == UNIT


TOOL = """\
#!/bin/sh
# Has the image in IMAGE_FILE, as docker, podman and nerdctl, or as ctr.
[ "$1" != --namespace ] || shift 2
case "$*" in
"image inspect "*) ;;
"save --output "*) cp "$IMAGE_FILE" "$3" ;;
"images ls --quiet") echo "$IMAGE" ;;
"images export "*) cp "$IMAGE_FILE" "$3" ;;
*) exit 1 ;;
esac
"""


@pytest.mark.parametrize("tool", ["docker", "podman", "nerdctl", "ctr"])
def test_without_a_saved_image_a_tool_gives_it(built: Path, tmp_path: Path, tool: str) -> None:
    script = put_script(tmp_path / "package", "gcushare-config-manager")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / tool).write_text(TOOL)
    (tools / tool).chmod(0o755)
    image = f"{packages.image_value(EXTENDER, 'repository')}/{EXTENDER}:{packages.image_tag(EXTENDER)}"
    environ = {"IMAGE_FILE": str(built / "images" / f"{EXTENDER}.tar"), "IMAGE": image, "GCUSHARE_IMAGE_TOOL": tool}
    path = f"{tools}:{os.environ['PATH']}"
    done = run(script, "status", "--help", cache=tmp_path / "cache", PATH=path, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: gcushare-config-manager status ")


def test_starts_at_the_same_time_unpack_one_copy(executable: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        starts = [pool.submit(run, executable, "--version", cache=tmp_path) for _ in range(4)]
    for each in starts:
        assert (each.result().returncode, each.result().stderr) == (0, "")
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_files_of_another_user_are_not_started(executable: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    os.chown(cache, 65532, 65532)
    done = run(executable, "--version", cache=cache)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: the directory {cache} belongs to another user\nwhat to do: ")


DOCKERFILE = DEPLOY / "image/Dockerfile"
PROGRAMS = ("gcushare-device-plugin", "gcushare-scheduler-extender", "gcushare-config-manager")
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
    debian = {path.name for path in (image / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libgcc-s1"} <= debian
    assert any(name.startswith("libssl3") for name in debian)
    assert {path.parent.name for path in image.glob("usr/share/doc/*/copyright")} == debian
    assert (image / "etc/os-release").read_text() == Path("/etc/os-release").read_text()
    save_image(image, tmp_path / "image.tar", "amd64")
    listed = str(sbom.describe(executables.read_image(tmp_path / "image.tar")))
    python = ".".join(map(str, sys.version_info[:3]))
    wanted = (f"pkg:generic/python@{python}", "pkg:pypi/grpcio@", "pkg:deb/debian/libc6@")
    assert [each for each in wanted if each not in listed] == []
    assert str(ROOT) not in listed


def test_no_part_for_laptops_and_tests_is_in_the_image(image: Path) -> None:
    names = {path.name for path in (image / "usr/local/lib").glob("python3.*/site-packages/*")}
    assert not names & {"pytest", "mypy", "pip", "setuptools", "hypothesis"}
