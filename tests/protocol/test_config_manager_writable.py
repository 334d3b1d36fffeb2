"""What stops the first write is seen by ``plan``, and ``apply`` refuses it with the same words before any change."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gcushare.config_manager.__main__ import main
from gcushare.runtime.entry import ProcessContext
from tests.unit.config_manager_host import KUBEASZ, Host, host_with

URL = "--extender-url=http://10.96.1.37:32766"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives directories to another user: run as root")


def call(command: str, root: Path, *arguments: str) -> tuple[int, str]:
    """Run a command; its exit code and what it printed as an error."""
    errors = io.StringIO()
    argv = (command, f"--host-root={root}", URL, *arguments)
    code = main(ProcessContext(argv=argv, environ={"HOME": "/nowhere"}, stdout=io.StringIO(), stderr=errors))
    return code, errors.getvalue()


def refused(root: Path, *arguments: str) -> str:
    """The words with which plan, diff and apply all refuse."""
    tree = Host(root).tree()
    answers = {call(command, root, *arguments) for command in ("plan", "diff", "apply")}
    assert Host(root).tree() == tree
    ((code, words),) = answers
    assert code != 0
    return words


def group_writable(folder: Path) -> None:
    folder.chmod(0o775)


def of_kube(folder: Path) -> None:
    os.chown(folder, 997, -1)


@pytest.mark.parametrize(
    ("directory", "change", "words"),
    [
        pytest.param("etc/kubernetes", group_writable, "can be written by others (mode 0775", id="group-writable"),
        pytest.param("etc", group_writable, "can be written by others (mode 0775", id="group-writable above"),
        pytest.param("etc/kubernetes/manifests", of_kube, "belongs to uid 997, ", id="owned by kube", marks=needs_root),
    ],
)
def test_a_directory_that_another_user_controls(
    tmp_path: Path, directory: str, change: Callable[[Path], None], words: str
) -> None:
    host_with(tmp_path, "kubeadm-1.29.yaml")
    assert call("plan", tmp_path) == (0, "")
    change(tmp_path / directory)
    assert words in refused(tmp_path)
    assert call("render", tmp_path) == (0, "")


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    host_with(tmp_path, "kubeadm-1.29.yaml")
    words = refused(tmp_path, "--files-dir=/etc/gcushare")
    assert "cannot write '/etc/gcushare/" in words
    assert "No such file or directory; create its directory first" in words


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A directory on a filesystem that is mounted read-only."""
    folder = tmp_path / "opt/gcushare"
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro,mode=755", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounts a filesystem: run as root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_filesystem_that_is_mounted_read_only(tmp_path: Path, read_only: Path) -> None:
    host_with(tmp_path, "kubeadm-1.29.yaml")
    words = refused(tmp_path, f"--files-dir=/{read_only.relative_to(tmp_path)}")
    assert "cannot write '/opt/gcushare/" in words
    assert "Read-only file system" in words


def test_a_unit_below_a_read_only_usr_is_changed_by_the_drop_in_that_the_message_advises(
    tmp_path: Path, read_only: Path
) -> None:
    unit = tmp_path / "usr/lib/systemd/system/kube-scheduler.service"
    Host(tmp_path).put(f"/{unit.relative_to(tmp_path)}", KUBEASZ)
    subprocess.run(["mount", "--bind", str(unit.parent), str(unit.parent)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(unit.parent)], check=True)
        version = "--scheduler-version=1.30"
        words = refused(tmp_path, f"--unit=/{unit.relative_to(tmp_path)}", version)
        assert "Read-only file system" in words
        assert "`systemctl edit` a drop-in that has its ExecStart=, and name that with --unit" in words
        drop_in = "/etc/systemd/system/kube-scheduler.service.d/override.conf"
        command = KUBEASZ.partition("[Service]\n")[2].partition("Restart=")[0]
        Host(tmp_path).put(drop_in, f"[Service]\nExecStart=\n{command}")
        before = Host(tmp_path).tree()
        assert call("apply", tmp_path, f"--unit={drop_in}", version) == (0, "")
        assert b"--config=" in Host(tmp_path).get(drop_in)
        assert call("recover", tmp_path, f"--unit={drop_in}") == (0, "")
        assert Host(tmp_path).tree() == before
    finally:
        subprocess.run(["umount", str(unit.parent)], check=True)
