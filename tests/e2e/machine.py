"""This machine as a node: containerd and the kubelet, in folders and mount namespaces of their own.

The kubelet has its device plugin directory written into it, below /var/lib/kubelet. In its own mount namespace that is
our folder, as is /etc/kubernetes; a kubelet that runs here already is left alone. Both folders are made where they are
missing and stay: a folder that is removed loses what others have mounted on it, and with it another run its kubelet.
Pods use the host's network and, unless a test needs them, no cgroups of their own, so that neither CNI nor a cgroup
layout is asked of the machine. The groups are the machine's: one run at a time may have them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from gcushare.kube.resources import NODES
from tests.e2e.assets import machine_address, need_binaries, need_root, need_tools
from tests.e2e.control_plane import NODE, NODE_USER, ControlPlane
from tests.e2e.images import NAME, build_image
from tests.e2e.waiting import until

_GROUPS = Path("/sys/fs/cgroup")
_BOOTED = re.compile(r"(containerd successfully booted)")
_STARTED = re.compile(r"(Started kubelet)")
_KUBELET_DIR, _KUBERNETES_DIR = Path("/var/lib/kubelet"), Path("/etc/kubernetes")
_MOUNTED = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done; shift; exec "$@"'


class Machine:
    """The one node of a control plane, as long as it is entered; skips the test, when made, where it cannot serve."""

    def __init__(
        self, control_plane: ControlPlane, feature_gates: Mapping[str, bool] | None = None, *, pod_groups: bool = False
    ) -> None:
        need_root("to run containerd and a kubelet")
        self._kubelet = need_binaries("kubelet")["kubelet"]
        self._tools = need_tools("containerd", "ctr", "runc", "unshare", "mount", why="to run pods for a kubelet")
        self.address = machine_address()
        self.control_plane = control_plane
        self.feature_gates = dict(feature_gates or {})
        self._pod_groups = pod_groups
        self.root = control_plane.root / NODE
        self.pod_logs = control_plane.root / "pods"
        self._socket = control_plane.root / "containerd.sock"
        self.etc = control_plane.root / "host" / "etc" / "kubernetes"
        self._removes_groups = False
        self._on_stop = contextlib.ExitStack()

    @property
    def plugins(self) -> Path:
        return self.root / "device-plugins"

    @property
    def cdi(self) -> Path:
        """Where containerd reads CDI specifications."""
        return self.root / "cdi"

    async def __aenter__(self) -> Self:
        """Start containerd with the tests' image, then the kubelet, and wait for the Node."""
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the kubelet, then every container, then containerd."""
        await self._stop()

    async def _start(self) -> None:
        for folder in (self.root, self.pod_logs, self.etc / "manifests", _KUBELET_DIR, _KUBERNETES_DIR):
            folder.mkdir(parents=True, exist_ok=True)
        if self._pod_groups:
            self._on_stop.callback(os.close, _lock_groups())
            self._removes_groups = not _groups_of_pods()
        await self._start_containerd()
        await self.import_image(await asyncio.to_thread(build_image, self.control_plane.root))
        await self.start_kubelet()

    async def _stop(self) -> None:
        running = [name for name in ("kubelet",) if name in self.control_plane.children]
        for name in running:
            await self.control_plane.end(name)
        if "containerd" in self.control_plane.children:
            await self._remove_containers()
            await self.control_plane.end("containerd")
        for pid in self._shims():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with self._on_stop:
            for top in _groups_of_pods() if self._removes_groups else ():
                for group, _, _ in os.walk(top, topdown=False):
                    Path(group).rmdir()

    async def start_kubelet(self) -> None:
        """Start the kubelet, or start it again; returns when plugins can register."""
        config = self.root / "config.json"
        config.write_bytes(msgspec.json.encode(self._kubelet_config()))
        await self.control_plane.start(
            self.control_plane.command(
                "kubelet",
                *self._mounted((self.root, _KUBELET_DIR), (self.etc, _KUBERNETES_DIR)),
                *(str(self._kubelet), f"--config={config}", f"--root-dir={self.root}", "--v=2"),
                *(f"--hostname-override={NODE}", f"--node-ip={self.address}", f"--cert-dir={self.root / 'pki'}"),
                f"--kubeconfig={self.control_plane.kubeconfig_of(NODE_USER)}",
                ready=_STARTED,
            )
        )
        await self._wait_for_kubelet()

    async def kill_kubelet(self) -> None:
        """End the kubelet at once; its pods run on."""
        await self.control_plane.children.pop("kubelet").kill()

    async def restart_containerd(self) -> None:
        """Kill containerd and start it again; containers run on with their shims."""
        await self.control_plane.children.pop("containerd").kill()
        await self._start_containerd()

    async def end_container(self, at: str) -> None:
        """Send TERM to a container, by its id at containerd."""
        await self._ctr("tasks", "kill", "--signal", "SIGTERM", at)

    async def created_ns(self, at: str) -> int:
        """When containerd created a container, by its id there: nanoseconds since the epoch."""
        written = str(json.loads(await self._ctr("containers", "info", at))["CreatedAt"])
        moment, _, digits = written.rstrip("Z").partition(".")
        seconds = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())
        return seconds * 1_000_000_000 + int(digits.ljust(9, "0")[:9])

    def logs(self, pod: dict[str, object], container: str = "main") -> list[str]:
        """Read what a pod's container wrote."""
        metadata = pod["metadata"]
        assert isinstance(metadata, dict)
        folder = self.pod_logs / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container
        texts = (file.read_text() for file in sorted(folder.glob("*.log")))
        # Each line: time, stream, F for a full line, text.
        return [line.split(" ", 3)[3] for text in texts for line in text.splitlines()]

    async def environment(
        self, pod: dict[str, object], container: str = "main", *, deadline_s: float = 180.0
    ) -> dict[str, str]:
        """Wait until a pod's container writes that it is ready; returns the environment that it says it has."""
        lines: list[str] = []

        async def missing() -> str:
            lines[:] = self.logs(pod, container)
            return "" if "READY" in lines else f"it wrote {lines}"

        await until(missing, f"{container} says that it is ready", deadline_s=deadline_s)
        pairs = (line.removeprefix("ENV ").partition("=") for line in lines if line.startswith("ENV "))
        return {key: value for key, _, value in pairs}

    async def _start_containerd(self) -> None:
        config = self.control_plane.root / "containerd.toml"
        config.write_text(self._containerd_config())
        path = os.pathsep.join({str(tool.parent) for tool in self._tools.values()} | {os.environ.get("PATH", "")})
        await self.control_plane.start(
            self.control_plane.command(
                "containerd",
                *self._mounted((self.etc, _KUBERNETES_DIR)),
                *(str(self._tools["containerd"]), "--config", str(config)),
                ready=_BOOTED,
                environ={"PATH": path},
            )
        )

    async def import_image(self, archive: Path) -> None:
        """Make an image known that a pod may then run."""
        await self._ctr("images", "import", str(archive))

    def _mounted(self, *pairs: tuple[Path, Path]) -> tuple[str, ...]:
        """Begin a command that runs where the second path of each pair shows the first."""
        words = (str(path) for pair in pairs for path in pair)
        return (str(self._tools["unshare"]), "--mount", "/bin/sh", "-c", _MOUNTED, "sh", *words, "--")

    async def _wait_for_kubelet(self) -> None:
        sockets = (self.plugins / "kubelet.sock", self.root / "pod-resources" / "kubelet.sock")

        async def missing() -> str:
            absent = [str(each) for each in sockets if not each.is_socket()]
            return ", ".join(absent) or ("" if await self.control_plane.client.list_all(NODES) else "the Node")

        await until(missing, "the kubelet has its sockets and its Node")

    async def _remove_containers(self) -> None:
        for container in (await self._ctr("containers", "list", "-q")).split():
            await self._ctr("tasks", "delete", "--force", container, checked=False)
            await self._ctr("containers", "delete", container, checked=False)

    async def _ctr(self, *arguments: str, checked: bool = True) -> str:
        words = (str(self._tools["ctr"]), "--address", str(self._socket), "--namespace", "k8s.io", *arguments)
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, error = await process.communicate()
        if checked and process.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {error.decode(errors='replace')}")
        return out.decode()

    def _shims(self) -> Iterator[int]:
        """The helpers of containers that outlive containerd: those that were given our socket."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if "containerd-shim" in words[0] and str(self._socket) in words:
                    yield int(entry.name)

    def _containerd_config(self) -> str:
        root = self.control_plane.root
        return f"""\
version = 2
root = "{root}/containerd"
state = "{root}/containerd-state"
[grpc]
  address = "{self._socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{NAME}"
  # Without the right to lower a process's OOM score, as in many containers, every pod would fail otherwise.
  restrict_oom_score_adj = true
  # What claims are given; containerd 1.6 has no such setting and passes over it.
  enable_cdi = true
  cdi_spec_dirs = ["{self.cdi}"]
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "{root}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""

    def _kubelet_config(self) -> dict[str, object]:
        config: dict[str, object] = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": free_port(),
            "healthzPort": 0,
            "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "staticPodPath": str(_KUBERNETES_DIR / "manifests"),
            "fileCheckFrequency": "1s",
            "podLogsDir": str(self.pod_logs),
            "cgroupDriver": "cgroupfs",
            # With them the kubelet makes a control group for each pod, which few machines of tests allow.
            "cgroupsPerQOS": self._pod_groups,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "maxPods": 200,
            "registryPullQPS": 0,
            "nodeStatusUpdateFrequency": "1s",
            "nodeStatusReportFrequency": "1s",
            "resolvConf": "",
        }
        if self.feature_gates:
            config["featureGates"] = self.feature_gates
        if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
            # Cgroups of version 1, which kubelets refuse from 1.35 on unless configured not to.
            config["failCgroupV1"] = False
        return config


def _lock_groups() -> int:
    """Open what holds the machine's groups of pods, in which a kubelet ends all that it does not know, until closed.

    Raises:
        AssertionError: another run has them.
    """
    folder = os.open(_KUBELET_DIR, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise AssertionError(
            "another test run on this machine has a kubelet with groups of pods, and two would end each other's pods: "
            "run this test once that one has ended"
        ) from error
    return folder


def _groups_of_pods() -> list[Path]:
    """The groups that kubelets make for pods on this machine, one for each hierarchy of version 1."""
    return [*_GROUPS.glob("kubepods"), *_GROUPS.glob("*/kubepods")]


def free_port() -> int:
    """Find a port no one uses; the kubelet has no way to share one, so somebody else might still be faster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number
