"""Runs the extender in its own process, with an API server that has many pods and a cheap connection to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.streaming_api import Size, make_pod, node_name

HERE = Path(__file__).resolve().parent.parent
READY_S = 900
"""On a machine that many others use; on a quiet one it takes seven seconds."""


class Connection:
    """One kept HTTP connection, as plain as a client can be, so that its own cost is small and always the same."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: bytes) -> tuple[float, bytes]:
        """Send a request; returns the seconds to the end of the answer, and its body."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        request = head.encode() + body
        started = time.perf_counter()
        self._socket.sendall(request)
        answer = self._read()
        return time.perf_counter() - started, answer

    def _read(self) -> bytes:
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._receive()
        head = bytes(data[:end]).lower()
        if not head.startswith((b"http/1.1 200", b"http/1.1 201")):
            raise RuntimeError(f"answered {bytes(data[:300])!r}")
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        while len(data) < end + 4 + length:
            data += self._receive()
        return bytes(data[end + 4 :])

    def _receive(self) -> bytes:
        chunk = self._socket.recv(1 << 20)
        if not chunk:
            raise RuntimeError("the connection was closed")
        return chunk


@dataclass(frozen=True)
class Bench:
    """A cluster with its extender, ready to be measured."""

    size: Size
    extender_port: int
    api_port: int
    extender_pid: int
    ready_s: float
    rss_mib: float
    label: str
    """The name of the checkout's folder."""

    def names(self) -> list[str]:
        return [node_name(number) for number in range(self.size.nodes)]

    def cpu_s(self) -> float:
        """CPU seconds that the extender has used."""
        fields = Path(f"/proc/{self.extender_pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(size: Size, *arguments: str, folder: Path = HERE) -> Iterator[Bench]:
    """Start the API server and the extender of the checkout in ``folder``; both end with the block."""
    flags = [f"--{name}={getattr(size, name)}" for name in ("nodes", "cards", "pods", "waiting")]
    api = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.streaming_api", *flags], stdout=subprocess.PIPE, cwd=HERE, text=True
    )
    # By a variable, which a checkout without that port leaves alone.
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve() / "src"), "GCUSHARE_PAGE_PORT": "0"}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            api_port = _read_port(api)
            kubeconfig = _write_kubeconfig(Path(scratch), api_port)
            started = time.perf_counter()
            command = [sys.executable, "-m", "benchmarks.echoing_extender", "--kubeconfig", str(kubeconfig)]
            options = ["--listen-address=127.0.0.1", "--listen-port=0", "--log-dir=", "--log-format=text", *arguments]
            with Path(scratch, "extender.log").open("w") as log:
                extender = subprocess.Popen(
                    [*command, *options], stdout=subprocess.PIPE, stderr=log, cwd=folder, text=True, env=environment
                )
            try:
                port = _read_port(extender)
                _wait_ready(port)
                ready_s = time.perf_counter() - started
                yield Bench(size, port, api_port, extender.pid, ready_s, rss_mib(extender.pid), folder.resolve().name)
            finally:
                extender.terminate()
                extender.wait(20)
        finally:
            api.kill()
            api.wait()


def rss_mib(pid: int, figure: str = "VmRSS") -> float:
    """Resident memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(figure))
    return int(line.split()[1]) / 1024


def _read_port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def _write_kubeconfig(folder: Path, port: int) -> Path:
    name = "bench"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": name, "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


def _wait_ready(port: int) -> None:
    """Wait until a call of the scheduler is answered: nodes and pods are read, and the replica leads."""
    body = filter_body(make_pod(0, Size(1, 1, 0, 1), 0), [node_name(0)])
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/gcushare-scheduler/filter", body, timeout=5).close()
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.02)
    raise RuntimeError(f"the extender did not become ready within {READY_S} s")


def filter_body(pod: dict[str, object], names: list[str]) -> bytes:
    """A filter request as kube-scheduler writes it."""
    document = {"Pod": pod, "Nodes": None, "NodeNames": names}
    return json.dumps(document, separators=(",", ":")).encode()
