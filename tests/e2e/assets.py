"""Where the real Kubernetes comes from, and the words with which a test is skipped when there is none."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

HOW_TO = (
    "name a folder with {names} in KUBEBUILDER_ASSETS (the Kubernetes release archives, or setup-envtest for the first "
    "two, hold them)"
)


_SINCE = {
    "test_claims_": 36,
    "test_kubelet_conformance": 36,
    "test_scheduler_conformance": 36,
    "test_managed_clusters": 36,
    "test_recipes_on_kubernetes": 36,
    "test_charts_on_kubernetes.py::test_the_plugins_account_reads": 34,
}
"""The first minor version that has what a module, or a test in it, is about."""


def find_binary(name: str) -> Path | None:
    """Find a program in KUBEBUILDER_ASSETS."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if folder and os.access(Path(folder) / name, os.X_OK):
        return Path(folder).absolute() / name
    return None


def need_binaries(*names: str) -> dict[str, Path]:
    """Find these programs of Kubernetes; skip the test where one is missing."""
    found = {name: path for name in names if (path := find_binary(name)) is not None}
    missing = [name for name in names if name not in found]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: " + HOW_TO.format(names=", ".join(names)))
    return found


def too_old(test: str) -> str:
    """Why a test does not run on the kube-apiserver of KUBEBUILDER_ASSETS; empty if it does."""
    needed = next((minor for name, minor in _SINCE.items() if test.startswith(name)), 0)
    found = _minor_of_server() if needed else needed
    return "" if found >= needed else f"needs Kubernetes 1.{needed}, and KUBEBUILDER_ASSETS has 1.{found}"


@functools.cache
def _minor_of_server() -> int:
    server = find_binary("kube-apiserver")
    if server is None:
        return 10**6  # The test says what is missing.
    text = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    return int(text.split(".")[1])


def need_older_scheduler() -> Path:
    """Find the kube-scheduler of 1.20 in KUBEBUILDER_ASSETS_1_20; skip the test where there is none."""
    folder = os.environ.get("KUBEBUILDER_ASSETS_1_20")
    if folder and os.access(Path(folder) / "kube-scheduler", os.X_OK):
        return Path(folder).absolute() / "kube-scheduler"
    pytest.skip(
        "no kube-scheduler of 1.20: name a folder with it in KUBEBUILDER_ASSETS_1_20 (the release archives of 1.20 "
        "hold it, and tests/README.md says how Debian's sources build it)"
    )


def need_client(name: str) -> Path:
    """Find kubectl or helm, in KUBEBUILDER_ASSETS or on the PATH; skip the test where there is none."""
    found = find_binary(name) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}, neither in KUBEBUILDER_ASSETS nor on the PATH: install it to run this test")
    return Path(found)


def need_tools(*names: str, why: str) -> dict[str, Path]:
    """Find tools of the machine; skip the test where one is missing."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    found = {name: Path(at) for name in names if (at := shutil.which(name, path=path)) is not None}
    missing = [name for name in names if name not in found]
    if missing:
        pytest.skip(f"no {', '.join(missing)} on the PATH, needed {why}: install it to run this test")
    return found


def need_root(why: str) -> None:
    """Skip the test where we are not root."""
    if os.geteuid() != 0:
        pytest.skip(f"not root, needed {why}: run the tests as root on a machine that may be used so")


def machine_address() -> str:
    """Find an address of this machine that other nodes could reach, as kubelets insist on; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            pytest.skip("the machine has no address but loopback's, and a kubelet refuses that: give it a route")
        address: str = probe.getsockname()[0]
        return address
