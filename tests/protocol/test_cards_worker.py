"""A vendor's library behind a real worker process: it hangs, crashes, comes back and renumbers its cards, and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gcushare.cards.errors import LibraryNotOpenError
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.ports import CardReport, HealthReading
from gcushare.cards.worker.client import IsolatedSource
from gcushare.cards.worker.messages import MAX_LINE_BYTES
from gcushare.cards.worker.process import WorkerProcess
from gcushare.cards.worker.time_limits import CARD_PAUSES, LIBRARY_PAUSES, IsolationSettings
from gcushare.core.errors import DeviceError
from tests.builders import present
from tests.native.libraries import FakeKind, install_fake, worker
from tests.native.unkillable import unkillable
from tests.running import wait_for_end

HANGING = IsolationSettings(call_timeout_s=3.0)
"""Where a call hangs; long enough that a busy machine's ordinary call is not taken for a hanging one."""
_DEVICE = ("Info", "Uuid", "Sn", "Mem", "IsHealth", "TempV2", "Pwr", "DtuUsage")
EFML_CALLS = (*(f"EfmlGetDev{name}" for name in _DEVICE), "EfmlGetProcessInfo")
# One of each kind: all go through one function of ours.
_KINDS = ("HandleByIndex_v2", "PciInfo_v3", "MigMode", "MemoryInfo", "FieldValues", "ComputeRunningProcesses_v3")
NVML_CALLS = tuple(f"nvmlDeviceGet{name}" for name in _KINDS)
CRASH = "crash EfmlGetDevIsHealth 1"


async def readings_of(source: IsolatedSource) -> list[HealthReading | None]:
    """List the cards; what was read of the health of each."""
    report = await source.list_cards()
    return [report.readings.get(card.uuid) for card in report.cards]


async def health_of(source: IsolatedSource) -> list[bool | None]:
    return [reading.healthy if reading is not None else None for reading in await readings_of(source)]


async def listing_process(source: IsolatedSource) -> int:
    """List the cards; the process that did."""
    await source.list_cards()
    assert source.worker_pid is not None
    return source.worker_pid


def uuids_of(report: CardReport) -> list[int]:
    """Which of the fake's cards are listed, by the numbers in their uuids."""
    return sorted(int(card.uuid[-4:]) for card in report.cards)


async def hang_one_call(kind: FakeKind, folder: Path, call: str) -> None:
    """Make one function hang for card 1 and check that card 1 alone bears it."""
    folder.mkdir()
    async with worker(folder, kind=kind, settings=HANGING) as (fake, source, _):
        first, second = (await source.list_cards()).cards
        fake.control(f"hang {call} 1")
        report = await source.list_cards()
    assert report.cards == (first, second), call
    assert report.readings[first.uuid].healthy, call
    assert report.uses[first.uuid].memory_used_bytes is not None, call
    reading = report.readings[second.uuid]
    assert (reading.healthy, reading.conclusive) == (False, True), call
    spoken = call.replace("Index_v2", "Index").replace("Info_v3", "Info")  # pynvml hides most versions
    assert reading.reason == f"library call {spoken} on card 1 did not return within 3s"


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        pytest.param("efml", EFML_CALLS, id="efml", marks=pytest.mark.slow),
        pytest.param("nvml", NVML_CALLS, id="nvml", marks=pytest.mark.slow),
        pytest.param("efml", ["EfmlGetDevIsHealth"], id="one of efml"),
        pytest.param("nvml", ["nvmlDeviceGetMemoryInfo"], id="one of nvml"),
    ],
)
async def test_a_hang_in_any_call_about_a_card_is_that_cards_alone(
    tmp_path: Path, kind: FakeKind, calls: Sequence[str]
) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(hang_one_call(kind, tmp_path / call, call), name=f"hang {call}")


# A worker process for each call.
@pytest.mark.slow
async def test_a_crash_in_any_call_about_a_card_is_that_cards_alone(tmp_path: Path) -> None:
    count = f"cards {len(EFML_CALLS) + 1}"
    async with worker(tmp_path, count) as (fake, source, _):
        cards = (await source.list_cards()).cards
        fake.control(count, *(f"crash {call} {card}" for card, call in enumerate(EFML_CALLS)))
        report = await source.list_cards()
    assert report.cards == cards
    reasons = [
        f"library call {call} on card {card} ended its process with SIGSEGV" for card, call in enumerate(EFML_CALLS)
    ]
    assert [report.readings[card.uuid].reason for card in cards] == [*reasons, ""]


@pytest.mark.slow
async def test_a_card_that_hung_rests_and_is_tried_again_with_growing_waits(tmp_path: Path) -> None:
    async with worker(tmp_path) as (fake, source, clock):
        await source.list_cards()
        fake.control(CRASH)
        assert await health_of(source) == [True, False]
        fake.control()
        assert await health_of(source) == [True, False]  # rests: its library is not called
        clock.advance(CARD_PAUSES.first_s)
        fake.control(CRASH)
        assert await health_of(source) == [True, False]  # tried, and crashed again
        fake.control()
        clock.advance(CARD_PAUSES.first_s)
        assert await health_of(source) == [True, False]  # rests twice as long now
        clock.advance(CARD_PAUSES.first_s)
        assert await health_of(source) == [True, True]
        fake.control(CRASH)
        await source.list_cards()
        fake.control()
        clock.advance(CARD_PAUSES.first_s)
        assert await health_of(source) == [True, True]  # its success had made the waits short again


@pytest.mark.slow
async def test_while_a_process_is_stuck_in_the_driver_no_second_one_is_started_for_its_card(tmp_path: Path) -> None:
    async with worker(tmp_path, settings=HANGING) as (fake, source, clock):
        stuck = await listing_process(source)
        with unkillable(stuck):
            fake.control("hang EfmlGetDevIsHealth 1")
            assert await health_of(source) == [True, False]
            assert await health_of(source) == [True, False]
            other = source.worker_pid
            clock.advance(3600.0)
            first, second = await readings_of(source)
            assert first is not None
            assert second is not None
            assert first.healthy
            assert second.reason.endswith(f"; a process is stuck in the driver (pid {stuck})")
            assert source.worker_pid == other
        await wait_for_end(stuck)
        fake.control()
        assert await health_of(source) == [True, True]


@pytest.mark.slow
async def test_a_library_whose_process_is_stuck_is_not_opened_again(tmp_path: Path) -> None:
    async with worker(tmp_path, settings=HANGING) as (fake, source, clock):
        stuck = await listing_process(source)
        with unkillable(stuck):
            fake.control("hang EfmlGetDevCount *")
            with pytest.raises(DeviceError, match="did not return"):
                await source.list_cards()
            fake.control()
            clock.advance(3600.0)
            with pytest.raises(LibraryNotOpenError, match=rf"stuck in the driver \(pid {stuck}\)"):
                await source.list_cards()
        await wait_for_end(stuck)
        assert len((await source.list_cards()).cards) == 2


@pytest.mark.slow
async def test_a_card_that_hung_before_it_was_ever_seen_is_left_out_with_the_reason(tmp_path: Path) -> None:
    async with worker(tmp_path, "crash EfmlGetDevInfo 0") as (_, source, _):
        report = await source.list_cards()
    assert [card.index for card in report.cards] == [1]
    left_out = report.left_out[0]
    assert (left_out.index, left_out.uuid) == (0, "")
    assert left_out.reason == "library call EfmlGetDevInfo on card 0 ended its process with SIGSEGV"


async def test_a_code_from_a_known_card_is_a_reading_and_costs_no_process(tmp_path: Path) -> None:
    async with worker(tmp_path) as (fake, source, _):
        cards, pid = (await source.list_cards()).cards, source.worker_pid
        fake.control("fail * 0 254")
        report = await source.list_cards()
        assert source.worker_pid == pid
    assert report.cards == cards
    reading = report.readings[cards[0].uuid]
    assert (reading.healthy, reading.conclusive) == (False, False)  # one code is no verdict
    assert reading.reason.startswith("EfmlGetDevIsHealth failed with code 254")
    assert report.uses.keys() == {cards[1].uuid}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        pytest.param("crash EfmlInit *", "library call EfmlInit ended its process with SIGSEGV", id="crash"),
        pytest.param("fail EfmlInit * 6", "EfmlInit failed with code 6", id="code"),
        pytest.param("crash EfmlGetDevCount *", "library call EfmlGetDevCount ended its process", id="count"),
    ],
)
async def test_a_library_that_does_not_start_is_tried_again_later(tmp_path: Path, rule: str, message: str) -> None:
    async with worker(tmp_path, rule, kind="efml_native") as (fake, source, clock):
        for _ in range(2):  # the second time it rests, and says the same
            with pytest.raises(DeviceError, match=message):
                await source.list_cards()
        fake.control()
        with pytest.raises(DeviceError, match=message):
            await source.list_cards()
        clock.advance(LIBRARY_PAUSES.first_s)
        assert len((await source.list_cards()).cards) == 2


@pytest.mark.slow
async def test_a_library_that_hangs_when_opened_is_given_up(tmp_path: Path) -> None:
    spec = LibrarySpec(kind="efml", library=str(install_fake("efml", tmp_path, "hang EfmlInit *").path))
    message = "(before the first)"
    for timeout_s in (1.0, 5.0, 20.0):  # a loaded machine takes seconds to start a process
        source = IsolatedSource(spec, IsolationSettings(open_timeout_s=timeout_s))
        with pytest.raises(LibraryNotOpenError, match=f"did not return within {timeout_s:g}s") as refused:
            await source.list_cards()
        assert source.worker_pid is None
        await source.close()
        message = str(refused.value)
        if "(before the first)" not in message:
            break
    assert "library call EfmlInit did not return" in message


@pytest.mark.slow
async def test_a_library_that_cannot_be_opened_again_is_no_cards_illness(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 3", kind="efml_native") as (fake, source, clock):
        cards = (await source.list_cards()).cards
        fake.control("cards 3", CRASH, "fail EfmlInit * 6")
        report = await source.list_cards()
        assert report.cards == cards
        assert [report.readings[card.uuid].healthy for card in cards[:2]] == [True, False]
        assert cards[2].uuid not in report.readings
        assert "EfmlInit failed with code 6" in report.problem
        fake.control("cards 3")
        clock.advance(LIBRARY_PAUSES.first_s)
        assert await health_of(source) == [True, False, True]


@pytest.mark.slow
async def test_a_lost_card_has_the_library_opened_again_now_and_then(tmp_path: Path) -> None:
    async with worker(tmp_path, kind="nvml") as (fake, source, clock):
        first_pid = await listing_process(source)
        fake.control("fail nvmlDeviceGetMemoryInfo 1 15")
        reading = present((await readings_of(source))[1])
        assert (reading.lost, reading.conclusive) == (True, True)
        assert "NVML_ERROR_GPU_IS_LOST" in reading.reason
        assert source.worker_pid == first_pid  # the cards after it are where this look has found them
        second_pid = await listing_process(source)
        assert second_pid != first_pid
        await source.list_cards()
        assert source.worker_pid == second_pid  # not at every look
        fake.control("cards 1")
        for _ in range(3):
            before = source.worker_pid
            clock.advance(CARD_PAUSES.cap_s)
            assert await health_of(source) == [True]
            assert source.worker_pid != before  # a library counts its cards once: one that came back is found so
        fake.control()
        assert await health_of(source) == [True, True]


@pytest.mark.slow
async def test_events_that_hang_stop_no_card(tmp_path: Path) -> None:
    async with worker(tmp_path, settings=HANGING) as (fake, source, _):
        await source.list_cards()
        fake.control("hang EfmlGetEvent *")
        assert await source.wait_event(0.0) is None
        assert await health_of(source) == [True, True]


async def test_the_same_worker_goes_on_after_a_cancelled_call(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, _):
        await source.list_cards()
        waiting = asyncio.create_task(source.wait_event(60.0), name="wait")
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await health_of(source) == [True, True]


WITHOUT_THE_FIRST = ("cards 2", *(f"set uuid {slot} GCU-UUID-{slot + 1:04d}" for slot in range(2)))
"""Card 0 of three has left: the library counts the others from 0 again."""


async def test_cards_that_move_while_the_last_one_rests_are_listed_once_and_read_where_they_are(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 3") as (fake, source, _):
        await source.list_cards()
        fake.control("cards 3", "crash EfmlGetDevIsHealth 2")
        assert await health_of(source) == [True, True, False]
        fake.control("cards 3", *(f"set uuid {slot} GCU-UUID-{(slot + 1) % 3:04d}" for slot in range(3)))
        report = await source.list_cards()
        assert uuids_of(report) == [0, 1, 2], "card 0 may be where no one looks yet"
        assert "GCU-UUID-0000" not in report.readings
        assert await health_of(source) == [True, True, True], "the rest was not that of the card that is there now"


async def test_a_library_that_is_opened_again_may_number_its_cards_otherwise(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 3") as (fake, source, _):
        cards = (await source.list_cards()).cards
        fake.control(*WITHOUT_THE_FIRST, "set healthy 1 0")  # card 2 is sick, at the place that card 1 had
        assert source.worker_pid is not None
        os.kill(source.worker_pid, signal.SIGKILL)
        await source.wait_event(0.0)  # it finds the process dead, and blames no card
        with pytest.raises(DeviceError, match="not listed by the library: card GCU-UUID-0001"):
            await source.are_linked(cards[1], cards[2])
        report = await source.list_cards()
    assert uuids_of(report) == [1, 2]
    assert [report.readings[card.uuid].healthy for card in cards[1:]] == [True, False]
    assert report.uses[cards[1].uuid].memory_used_bytes == 1 << 30


async def test_a_slot_that_says_nothing_hides_no_card_for_long(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 3") as (fake, source, _):
        await source.list_cards()
        fake.control(*WITHOUT_THE_FIRST, "fail EfmlGetDevInfo 0 254")
        report = await source.list_cards()
        assert uuids_of(report) == [0, 1, 2], "which card is there is not known"
        assert report.readings.keys() == {"GCU-UUID-0002"}, "nor whose health was read there"
        fake.control(*WITHOUT_THE_FIRST)
        assert uuids_of(await source.list_cards()) == [1, 2]


# The process


def open_files() -> list[int]:
    return sorted(int(each.name) for each in Path("/proc/self/fd").iterdir())


def test_where_no_process_can_be_started_no_file_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = open_files()
    with pytest.raises(DeviceError, match=r"cannot be started: Resource temporarily unavailable"):
        WorkerProcess(LibrarySpec(kind="efml", library="/nonexistent"))
    assert open_files() == before


async def test_a_worker_killed_from_outside_is_replaced(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, clock):
        killed = await listing_process(source)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(DeviceError, match="SIGKILL"):
            await source.list_cards()
        clock.advance(LIBRARY_PAUSES.first_s)
        assert len((await source.list_cards()).readings) == 2
        assert source.worker_pid not in (killed, None)


# A worker process for each answer.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param(b"x" * (2 * MAX_LINE_BYTES), "chunk exceed the limit", id="no end of line"),
        pytest.param(b'{"result":"perhaps"}\n', "Expected `int`", id="another type"),
    ],
)
async def test_a_worker_that_writes_what_is_no_answer_is_replaced(tmp_path: Path, written: bytes, reason: str) -> None:
    async with worker(tmp_path) as (_, source, clock):
        await source.list_cards()
        broken = present(source._worker)
        assert broken._reader is not None
        broken._reader.feed_data(written)
        with pytest.raises(DeviceError, match=f"with an unreadable answer.*{reason}"):
            await source.list_cards()
        await wait_for_end(broken.pid)
        clock.advance(LIBRARY_PAUSES.first_s)
        assert len((await source.list_cards()).readings) == 2
        assert source.worker_pid not in (broken.pid, None)


async def test_signals_for_its_parent_do_not_end_a_worker(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, _):
        pid = await listing_process(source)
        for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            os.kill(pid, number)
            assert len((await source.list_cards()).readings) == 2
            assert source.worker_pid == pid


async def test_a_closed_source_leaves_no_process_and_answers_no_more(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, _):
        pid = await listing_process(source)
        await source.close()
        with pytest.raises(DeviceError, match="closed"):
            await source.list_cards()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_worker_stuck_in_a_call_dies_with_its_parent(tmp_path: Path) -> None:
    fake = install_fake("efml", tmp_path)
    script = (
        "import asyncio, sys\n"
        "from gcushare.cards.worker.client import IsolatedSource\n"
        "from gcushare.cards.libraries import LibrarySpec\n"
        "async def main():\n"
        "    source = IsolatedSource(LibrarySpec(kind='efml', library=sys.argv[1]))\n"
        "    await source.list_cards()\n"
        "    print(source.worker_pid, flush=True)\n"
        "    await source.wait_event(600.0)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, str(fake.path)]
    parent = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await wait_for_end(worker)


@pytest.mark.slow
async def test_a_worker_is_small(tmp_path: Path) -> None:
    async with worker(tmp_path, kind="nvml") as (_, source, _):
        await source.list_cards()
        status = Path(f"/proc/{source.worker_pid}/status").read_text()
    resident_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident_kib < 48 * 1024
