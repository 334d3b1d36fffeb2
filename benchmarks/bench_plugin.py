"""Measure the device plugin as the kubelet meets it: the real program, its real socket, a kubelet made of raw bytes.

Prints a Markdown table of medians and worst cases. Absolute figures depend on the machine; docs/performance.md keeps
those of one run with its command. Run: ``make bench-plugin``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio

from benchmarks.raw_kubelet import RawKubelet, holdings_of
from gcushare.wire.kubelet.device_ids import cards_of_ids, device_ids_of_card
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.apiserver.serving import ApiServer
from gcushare_playground.kubelet import Kubelet, KubeletSettings, NodeApi

NODE = "bench-node"
RESOURCE = "aliyun.com/gpu-mem"
CARDS = 8
BATCH = 110
"""Pods that a kubelet runs at most by default."""


@dataclass(frozen=True)
class Size:
    """One node: its unit, GiB of each card, the kubelet's message limit."""

    unit: str
    gib_per_card: int = 32
    limit_bytes: int = services.KUBELET_RECEIVE_LIMIT_BYTES


MANUAL = Size("GiB")
LARGEST = Size("MiB")
"""The largest node that a kubelet as released accepts: 262,144 units."""
REBUILT = Size("MiB", 80, 16 << 20)
"""655,360 units, for a kubelet that was built with a limit of 16 MiB."""


@dataclass
class Bench:
    """One running plugin with its kubelet."""

    size: Size
    folder: Path
    api: ApiServer
    kubelet: RawKubelet
    process: asyncio.subprocess.Process
    channel: grpc.aio.Channel

    @property
    def rss_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    async def call(self, method: str, request: bytes) -> tuple[bytes, float]:
        """Make one call; returns the answer and its seconds."""
        started = time.perf_counter()
        answer: bytes = await self.channel.unary_unary(method)(request)
        return answer, time.perf_counter() - started

    def bind_pods(self, count: int, units: int, *, prefix: str = "pod") -> None:
        """Put bound, recorded pods into the API server, over the cards in turn."""
        for number in range(count):
            self.api.registry.put(_pod(f"{prefix}-{units}-{number}", units, number % CARDS))


def _pod(name: str, units: int, card: int) -> dict[str, object]:
    annotations = {"ALIYUN_COM_GPU_MEM_IDX": str(card), "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1"}
    container = {"name": "app", "image": "x", "resources": {"limits": {RESOURCE: str(units)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": NODE, "containers": [container]},
        "status": {"phase": "Pending"},
    }


def write_cards(folder: Path, size: Size, *, sick: int | None = None) -> Path:
    """Write the simulated cards' file, one of them sick."""
    cards: list[dict[str, object]] = [
        {"index": i, "uuid": f"GPU-{i}", "memory": f"{size.gib_per_card}GiB"} for i in range(CARDS)
    ]
    if sick is not None:
        cards[sick] |= {"health": "unhealthy", "reason": "bench"}
    path = folder / "cards.json"
    temporary = folder / "cards.tmp"
    temporary.write_text(json.dumps({"cards": cards}))
    return temporary.replace(path)


async def start_plugin(stack: AsyncExitStack, folder: Path, size: Size) -> asyncio.subprocess.Process:
    """Start the program between the API server of the folder's kubeconfig and the kubelet whose folder it is."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gcushare.device_plugin",
        "--vendor", "aliyun", "--memory-unit", size.unit, "--node-name", NODE,
        "--cards", f"simulated:{write_cards(folder, size)}", "--kubeconfig", str(folder / "kubeconfig"),
        "--kubelet-dir", str(folder), "--cdi-dir", str(folder / "cdi"),
        "--listen-address", "127.0.0.1", "--listen-port", "0", "--log-dir", "",
        "--log-level", "error", "--poll-interval", "250ms", "--kubelet-message-limit", str(size.limit_bytes),
    )  # fmt: skip
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    return process


@asynccontextmanager
async def running_plugin(size: Size) -> AsyncIterator[Bench]:
    """Start everything for one memory unit and wait until the kubelet holds the list."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        api = await stack.enter_async_context(ApiServer())
        api.registry.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        api.kubeconfig(folder / "kubeconfig")
        kubelet = RawKubelet(folder)
        await kubelet.serve(stack)
        process = await start_plugin(stack, folder, size)
        async with asyncio.timeout(30):
            await kubelet.registered.wait()
        options = [("grpc.max_receive_message_length", size.limit_bytes)]
        channel = await stack.enter_async_context(
            grpc.aio.insecure_channel(f"unix:{kubelet.directory / 'aliyungpushare.sock'}", options=options)
        )
        follower = asyncio.create_task(kubelet.follow(channel), name="list and watch")
        stack.callback(follower.cancel)
        async with asyncio.timeout(10):
            await kubelet.changed.wait()
        yield Bench(size, folder, api, kubelet, process, channel)


def summarise(seconds: Sequence[float]) -> str:
    """Median and worst, in milliseconds."""
    return f"{statistics.median(seconds) * 1000:.2f} ms (worst {max(seconds) * 1000:.1f})"


async def measure(work: Callable[[int], Awaitable[float]], rounds: int) -> list[float]:
    """Run ``work`` once to warm up, then ``rounds`` times."""
    await work(0)
    return [await work(number + 1) for number in range(rounds)]


async def bench_large(rows: list[tuple[str, str]], size: Size) -> None:
    """A node with as many units as fit; pods ask for half a card."""
    per_card = size.gib_per_card * 1024
    share = per_card // 2
    async with running_plugin(size) as bench:
        units = bench.kubelet.message.count(b"Healthy")
        rows.append(("units in one message", f"{units:,} in {len(bench.kubelet.message):,} bytes"))
        ids = [i for card in range(CARDS) for i in device_ids_of_card(card, per_card)[card * 1_500 :]]
        random.Random(1).shuffle(ids)
        bench.bind_pods(64, share)
        await asyncio.sleep(1.0)
        request = pb.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=ids, allocation_size=share)
        body = request.SerializeToString()

        async def prefer(_round: int) -> float:
            answer, seconds = await bench.call(services.GET_PREFERRED_ALLOCATION, body)
            (container,) = pb.PreferredAllocationResponse.FromString(answer).container_responses
            assert len(set(container.deviceIDs)) == share
            return seconds

        async def allocate(number: int) -> float:
            return (await bench.call(services.ALLOCATE, allocate_body(number % CARDS, share)))[1]

        rows.append(
            (f"GetPreferredAllocation, {share:,} of {len(ids):,} free ids", summarise(await measure(prefer, 30)))
        )
        rows.append((f"Allocate of {share:,}", summarise(await measure(allocate, 30))))
        rows.append(("one card's health change to the kubelet's new list", summarise(await health_changes(bench))))
        bench.kubelet.holdings = holdings_of(RESOURCE, CARDS, per_card, 8)
        seconds = []
        for number in range(1_000):
            seconds.append((await bench.call(services.ALLOCATE, allocate_body(number % CARDS, 64)))[1])
        rows.append((f"Allocate of 64 while {units:,} held ids are read from podresources", summarise(seconds)))
        rows.append(("resident memory after these 1,000 allocations", f"{bench.rss_mib:.0f} MiB"))
        registrations = [await bench.kubelet.restart() for _ in range(5)]
        rows.append(("registration after the kubelet's socket is there again", summarise(registrations)))


async def health_changes(bench: Bench) -> list[float]:
    """Turn cards sick and well again; the time from a card that turns sick to the kubelet holding the list."""
    seconds = []
    for sick in (3, None, 5, None, 6, None):
        bench.kubelet.changed.clear()
        started = time.perf_counter()
        write_cards(bench.folder, bench.size, sick=sick)
        async with asyncio.timeout(60):
            await bench.kubelet.changed.wait()
        if sick is not None:
            seconds.append(bench.kubelet.received_at - started)
    return seconds


def allocate_body(card: int, units: int) -> bytes:
    """An AllocateRequest of ids of one card."""
    request = pb.AllocateRequest()
    request.container_requests.add(devices_ids=device_ids_of_card(card, units))
    return request.SerializeToString()


async def bench_small(rows: list[tuple[str, str]]) -> None:
    """The manual's node: few, large units."""
    async with running_plugin(MANUAL) as bench:
        ids = [i for card in range(CARDS) for i in device_ids_of_card(card, 16)]
        bench.bind_pods(32, 4)  # as many as 128 units hold
        await asyncio.sleep(1.0)
        request = pb.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=ids, allocation_size=4)
        body = request.SerializeToString()

        async def prefer(_round: int) -> float:
            return (await bench.call(services.GET_PREFERRED_ALLOCATION, body))[1]

        async def allocate(number: int) -> float:
            return (await bench.call(services.ALLOCATE, allocate_body(number % CARDS, 4)))[1]

        rows.append(("GetPreferredAllocation, 4 of 128", summarise(await measure(prefer, 200))))
        rows.append(("Allocate of 4", summarise(await measure(allocate, 31))))
        await asyncio.sleep(5.0)
        before, started = bench.cpu_s, time.perf_counter()
        await asyncio.sleep(10.0)
        rows.append(("idle CPU", f"{(bench.cpu_s - before) / (time.perf_counter() - started):.1%} of a core"))


async def bench_batch(rows: list[tuple[str, str]]) -> None:
    """A full node's pods bound at once, against the kubelet double; from its last admission to the last true record."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        api = await stack.enter_async_context(ApiServer())
        api.kubeconfig(folder / "kubeconfig")
        node_api = await stack.enter_async_context(NodeApi(api.url))
        settings = KubeletSettings(node_name=NODE, root_dir=folder, batch_window_s=0.0)
        kubelet = await stack.enter_async_context(Kubelet(settings, node_api))
        await kubelet.wait_ready()
        await start_plugin(stack, folder, MANUAL)
        await until(lambda: RESOURCE in kubelet.counts() and kubelet.counts()[RESOURCE].allocatable == 256)
        kubelet.faults.admission_open.clear()
        names = [f"pod-{number}" for number in range(BATCH)]
        for number, name in enumerate(names):
            api.registry.put(_pod(name, 2, number % CARDS))
        await kubelet.gather_pods(BATCH)
        kubelet.faults.admission_open.set()
        uids = {name: str(_object(api, name)["metadata"]["uid"]) for name in names}
        await until(lambda: all(kubelet.held_ids(uid, "app", RESOURCE) for uid in uids.values()))
        admitted = time.perf_counter()

        def is_true(name: str) -> bool:
            annotations = _object(api, name)["metadata"]["annotations"]
            (card,) = cards_of_ids(kubelet.held_ids(uids[name], "app", RESOURCE))
            return (annotations["ALIYUN_COM_GPU_MEM_IDX"], annotations.get("ALIYUN_COM_GPU_MEM_ASSIGNED")) == (
                str(card),
                "true",
            )

        await until(lambda: all(is_true(name) for name in names))
        took_s = time.perf_counter() - admitted
        rows.append(
            (f"{BATCH} pods bound at once: last record true after the last admission", f"{took_s * 1000:.0f} ms")
        )


def _object(api: ApiServer, name: str) -> dict[str, Any]:
    found = api.store.get("pods", name)
    assert found is not None, f"pod {name} is gone"
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, looking every few milliseconds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - the doubles have no event for every state
            await asyncio.sleep(0.005)


async def main() -> None:
    """Run all of them and print the table."""
    rows: list[tuple[str, str]] = []
    await bench_large(rows, LARGEST)
    await bench_large(rows, REBUILT)
    await bench_small(rows)
    await bench_batch(rows)
    print("| what | measured |\n|---|---|")
    for what, measured in rows:
        print(f"| {what} | {re.sub(' +', ' ', measured)} |")


if __name__ == "__main__":
    asyncio.run(main())
