"""A control-plane node with real processes: a kubelet that follows the manifest, and the scheduler that it starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gcushare.config_manager.host.manifest_text import parse_manifest
from gcushare.config_manager.host.running_scheduler import ask_health
from tests.running import running
from tests.unit.config_manager_host import MANIFEST, corpus_text, load_yaml

SCHEDULER = Path(__file__).with_name("config_manager_scheduler.py")


@dataclass
class ProcessNode:
    """The node's files lie below ``root``; its manifest names the port that ``listener`` holds."""

    root: Path
    listener: socket.socket
    process: asyncio.subprocess.Process | None = None
    starts: int = 0
    _pod: object = None

    async def manifest_has(self, text: bytes) -> bool:
        return text in self.manifest.read_bytes()

    async def config_has(self, text: bytes) -> bool:
        path = self.root / "etc/kubernetes/scheduler-extender-config-v1.23+.yaml"
        return path.exists() and text in path.read_bytes()

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST[1:]

    async def is_proven(self) -> bool:
        record = json.loads((self.root / "etc/kubernetes/gcushare-config-manager.json").read_text())
        return bool(record["is_proven"])

    async def follow(self) -> None:
        """Start what the manifest says, and again when it says something else, as the kubelet does."""
        try:
            while True:
                pod = load_yaml(self.manifest.read_text())
                if pod != self._pod or self.process is None or self.process.returncode is not None:
                    self._pod = pod
                    await self._restart()
                await asyncio.sleep(0.02)
        finally:
            await self._stop()

    async def _restart(self) -> None:
        await self._stop()
        flags = [f"--{flag.name}={flag.value}" for flag in parse_manifest(self.manifest.read_text(), "manifest").flags]
        self.process = await asyncio.create_subprocess_exec(
            "kube-scheduler",
            str(SCHEDULER),
            *flags,
            executable=sys.executable,
            pass_fds=[self.listener.fileno()],
            env={**os.environ, "LISTEN_FD": str(self.listener.fileno()), "HOST_ROOT": str(self.root)},
            stderr=asyncio.subprocess.DEVNULL,
        )
        self.starts += 1

    async def _stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.terminate()
            await self.process.wait()


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something that another process does."""
    try:
        async with asyncio.timeout(60):
            while not await condition():  # noqa: ASYNC110 - another process sets no event of ours
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise AssertionError(f"did not happen within 60 s: {what}") from error


@asynccontextmanager
async def process_node(root: Path) -> AsyncIterator[ProcessNode]:
    """Run a node of kubeadm 1.29 whose scheduler really runs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1]).encode()
        flag = b"    - --leader-elect=true\n"
        flags = flag + b"    - --secure-port=0\n    - --port=%s\n" % port
        text = corpus_text("kubeadm-1.29.yaml").replace(flag, flags)
        node = ProcessNode(root, listener)
        node.manifest.parent.mkdir(parents=True)
        node.manifest.write_bytes(text)
        (root / "proc").symlink_to("/proc")

        async def is_healthy() -> bool:
            return await ask_health(f"http://127.0.0.1:{listener.getsockname()[1]}/healthz") == ""

        async with running(node.follow(), "kubelet"):
            await until(is_healthy, "the scheduler starts")
            yield node
