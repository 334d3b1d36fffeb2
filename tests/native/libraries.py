"""Build the fake vendor libraries and tell them what to do.

Each test gets its own copy of the shared object, because a library reads its control file from its own folder. What the
rules mean stands at the top of ``fake_control.h``.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.nvidia.nvml import NvmlLibrary
from gcushare.cards.pci import PciBus
from gcushare.cards.ports import CardReport, GroupMemory, HealthEvent
from gcushare.cards.worker.client import IsolatedSource
from gcushare.cards.worker.time_limits import IsolationSettings
from gcushare.core.cards import Card
from tests.manual_clock import ManualClock

FakeKind = Literal["efml", "efml_native", "efml_shaped", "nvml"]

PATIENT = IsolationSettings(call_timeout_s=60.0)
_SOURCES = Path(__file__).parent
_BUILDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "efml": ("fake_efml.c", "libefml.so", ()),
    "efml_native": ("fake_efml.c", "libefml.so", ("-DWITHOUT_SHAPED",)),
    "efml_shaped": ("fake_efml.c", "libefml.so", ("-DWITHOUT_NATIVE",)),
    "nvml": ("fake_nvml.c", "libnvidia-ml.so.1", ()),
}
_FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation", "-Wno-unused-function")


@dataclass(frozen=True, slots=True)
class FakeLibrary:
    """A fake library of one test."""

    path: Path
    kind: FakeKind

    def control(self, *rules: str) -> None:
        """Replace the rules; the next call follows them."""
        control = self.path.with_name(self.path.name + ".control")
        half = control.with_suffix(".half")
        half.write_text("".join(f"{rule}\n" for rule in rules))
        half.replace(control)


def install_fake(kind: FakeKind, folder: Path, *rules: str) -> FakeLibrary:
    """Put a fake library into ``folder`` that follows these rules; skip the test where there is no C compiler."""
    fake = FakeLibrary(folder / _BUILDS[kind][1], kind)
    shutil.copy(_build(kind), fake.path)
    if rules:
        fake.control(*rules)
    return fake


@asynccontextmanager
async def isolated(
    fake: FakeLibrary,
    settings: IsolationSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    *,
    pci_devices: str = "/nonexistent",
    reads: bool = True,
) -> AsyncIterator[IsolatedSource]:
    """A source whose worker process opens the library; it is closed with the block."""
    spec = LibrarySpec(kind=fake.kind.partition("_")[0], library=str(fake.path), pci_devices=pci_devices)
    source = IsolatedSource(spec, settings or IsolationSettings(), clock, reads)
    try:
        yield source
    finally:
        await source.close()


@asynccontextmanager
async def worker(
    folder: Path, *rules: str, kind: FakeKind = "efml", settings: IsolationSettings = PATIENT
) -> AsyncIterator[tuple[FakeLibrary, IsolatedSource, ManualClock]]:
    """A library that follows these rules, and a source of it for which no time passes but by its clock."""
    fake, clock = install_fake(kind, folder, *rules), ManualClock()
    async with isolated(fake, settings, clock) as source:
        yield fake, source, clock


@functools.cache
def nvml_here() -> tuple[FakeLibrary, NvmlLibrary]:
    """NVML's double in this very process: one for all tests, as the binding keeps what it loads first."""
    folder = tempfile.mkdtemp(prefix="gcushare-nvml-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    fake = install_fake("nvml", Path(folder))
    library = NvmlLibrary(str(fake.path), PciBus(Path("/nonexistent")), lambda _name: None)
    library.open()
    return fake, library


class DirectSource:
    """Cards and limits for tests of what is made of the answers, where no call hangs: it starts no worker process."""

    name = "nvml"

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    async def list_cards(self) -> CardReport:
        found = [self._library.describe(slot) for slot in range(self._library.card_count())]
        cards = tuple(each for each in found if isinstance(each, Card))
        return CardReport(
            cards=cards,
            readings={card.uuid: self._library.health(card.index) for card in cards},
            uses={card.uuid: self._library.use(card.index) for card in cards},
        )

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        return False

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        await asyncio.sleep(timeout_s)
        return None

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        return self._library.group_memory(card.index, group)

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        self._library.limit_group(card.index, group, hard_bytes)
        return self._library.group_memory(card.index, group)

    async def close(self) -> None:
        """The library stays open for the next test."""


@functools.cache
def _build(kind: FakeKind) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler for the fake vendor libraries: install cc (gcc or clang) or name one in CC")
    source, _, defines = _BUILDS[kind]
    folder = tempfile.mkdtemp(prefix="gcushare-native-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = Path(folder) / f"{kind}.so"
    subprocess.run([compiler, *_FLAGS, *defines, "-o", target, _SOURCES / source, "-ldl"], check=True)
    return target
