"""A vendor's library behind a real worker process: it hangs, crashes and comes back, its caller goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from gcushare.cards.errors import LibraryCallError, LibraryNotOpenError
from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.worker.client import IsolatedSource
from gcushare.cards.worker.time_limits import IsolationSettings
from gcushare.core.errors import DeviceError
from tests.native.libraries import FakeKind, install_fake
from tests.native.unkillable import unkillable
from tests.protocol.worker_rig import SETTINGS, wait_for_end, worker

HANGING = IsolationSettings(call_timeout_s=3.0)
"""Where a call hangs; long enough that a busy machine's ordinary call is not taken for a hanging one."""
_DEVICE = ("Info", "Uuid", "Sn", "Mem", "IsHealth", "TempV2", "Pwr", "DtuUsage")
EFML_CALLS = (*(f"EfmlGetDev{name}" for name in _DEVICE), "EfmlGetProcessInfo")
# One of each kind: all go through one function of ours.
_KINDS = ("HandleByIndex_v2", "PciInfo_v3", "MigMode", "MemoryInfo", "FieldValues", "ComputeRunningProcesses_v3")
NVML_CALLS = tuple(f"nvmlDeviceGet{name}" for name in _KINDS)


async def hang_one_call(kind: FakeKind, folder: Path, call: str) -> None:
    """Make one function hang for card 1 and check that card 1 alone bears it."""
    folder.mkdir()
    async with worker(folder, kind=kind, settings=HANGING) as (fake, source, _):
        first, second = (await source.list_cards()).cards
        fake.control(f"hang {call} 1")
        report = await source.list_cards()
        await source.health(second)
        with suppress(DeviceError):  # a call that only the use makes hangs here
            await source.use(second)
        assert report.cards == (first, second), call
        assert (await source.health(first)).healthy, call
        assert (await source.use(first)).memory_used_bytes is not None, call
        reading = await source.health(second)
    assert not reading.healthy, call
    assert reading.conclusive, call
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


# Worker processes that hang until they are given up.
@pytest.mark.slow
async def test_a_crash_in_any_call_about_a_card_is_that_cards_alone(tmp_path: Path) -> None:
    count = f"cards {len(EFML_CALLS) + 1}"
    async with worker(tmp_path, count) as (fake, source, _):
        *crashing, last = (await source.list_cards()).cards
        fake.control(count, *(f"crash {call} {card}" for card, call in enumerate(EFML_CALLS)))
        assert (await source.list_cards()).cards == (*crashing, last)
        for card in crashing:
            await source.health(card)
            with suppress(DeviceError):  # a call that only the use makes crashes here
                await source.use(card)
        reasons = [(await source.health(card)).reason for card in crashing]
        assert (await source.health(last)).healthy
    assert reasons == [
        f"library call {call} on card {card} ended its process with SIGSEGV" for card, call in enumerate(EFML_CALLS)
    ]


@pytest.mark.slow
async def test_a_card_that_hung_rests_and_is_tried_again_with_growing_waits(tmp_path: Path) -> None:
    async with worker(tmp_path) as (fake, source, clock):
        first, second = (await source.list_cards()).cards
        fake.control("crash EfmlGetDevIsHealth 1")
        await source.health(second)
        fake.control()
        pid_after = source.worker_pid
        assert not (await source.health(second)).healthy  # rests: no library is called, no process is started
        assert source.worker_pid == pid_after
        clock.advance(SETTINGS.card_pauses.first_s)
        fake.control("crash EfmlGetDevIsHealth 1")
        assert not (await source.health(second)).healthy  # tried, and crashed again
        fake.control()
        clock.advance(SETTINGS.card_pauses.first_s)
        assert not (await source.health(second)).healthy  # rests twice as long now
        clock.advance(SETTINGS.card_pauses.first_s)
        assert (await source.health(second)).healthy
        assert (await source.health(first)).healthy
        fake.control("crash EfmlGetDevIsHealth 1")
        await source.health(second)
        fake.control()
        clock.advance(SETTINGS.card_pauses.first_s)
        assert (await source.health(second)).healthy  # its success had made the waits short again


@pytest.mark.slow
async def test_while_a_process_is_stuck_in_the_driver_no_second_one_is_started_for_its_card(tmp_path: Path) -> None:
    async with worker(tmp_path, settings=HANGING) as (fake, source, clock):
        first, second = (await source.list_cards()).cards
        stuck = source.worker_pid
        assert stuck is not None
        with unkillable(stuck):
            fake.control("hang EfmlGetDevIsHealth 1")
            await source.health(second)
            assert (await source.health(first)).healthy
            other = source.worker_pid
            clock.advance(3600.0)
            reading = await source.health(second)
            assert reading.reason.endswith(f"; a process is stuck in the driver (pid {stuck})")
            assert len((await source.list_cards()).cards) == 2
            assert source.worker_pid == other
        await wait_for_end(stuck)
        fake.control()
        assert (await source.health(second)).healthy


@pytest.mark.slow
async def test_a_library_whose_process_is_stuck_is_not_opened_again(tmp_path: Path) -> None:
    async with worker(tmp_path, settings=HANGING) as (fake, source, clock):
        await source.list_cards()
        stuck = source.worker_pid
        assert stuck is not None
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


async def test_a_code_from_a_known_card_is_a_reading_and_not_an_error(tmp_path: Path) -> None:
    async with worker(tmp_path) as (fake, source, _):
        card = (await source.list_cards()).cards[0]
        fake.control("fail * 0 254")
        assert (await source.list_cards()).cards[0] == card
        reading = await source.health(card)
        pid = source.worker_pid
        with pytest.raises(LibraryCallError, match="EFML_ERROR_FAIL"):
            await source.use(card)
        assert source.worker_pid == pid  # an error code costs no process
    assert not reading.healthy
    assert not reading.conclusive  # one code is no verdict
    assert reading.reason.startswith("EfmlGetDevIsHealth failed with EFML_ERROR_FAIL (254)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        pytest.param("crash EfmlInit *", "library call EfmlInit ended its process with SIGSEGV", id="crash"),
        pytest.param("fail EfmlInit * 6", "EFML_ERROR_DRIVER_NOT_LOADED", id="code"),
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
        clock.advance(SETTINGS.library_pauses.first_s)
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
    async with worker(tmp_path, kind="efml_native") as (fake, source, clock):
        first, second = (await source.list_cards()).cards
        fake.control("crash EfmlGetDevIsHealth 1", "fail EfmlInit * 6")
        await source.health(second)
        for _ in range(2):
            with pytest.raises(LibraryNotOpenError, match="EFML_ERROR_DRIVER_NOT_LOADED"):
                await source.health(first)
        fake.control()
        clock.advance(SETTINGS.library_pauses.first_s)
        assert (await source.health(first)).healthy


@pytest.mark.slow
async def test_cards_that_a_driver_brings_later_are_found(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 0") as (fake, source, _):
        assert (await source.list_cards()).cards == ()
        assert source.worker_pid is None  # the next look loads the library again
        fake.control("cards 3")
        assert len((await source.list_cards()).cards) == 3


@pytest.mark.slow
async def test_a_lost_card_has_the_library_opened_again_now_and_then(tmp_path: Path) -> None:
    async with worker(tmp_path, kind="nvml") as (fake, source, clock):
        cards = (await source.list_cards()).cards
        first_pid = source.worker_pid
        fake.control("fail nvmlDeviceGetMemoryInfo 1 15")
        reading = await source.health(cards[1])
        assert (reading.lost, reading.conclusive) == (True, True)
        assert "NVML_ERROR_GPU_IS_LOST" in reading.reason
        assert source.worker_pid == first_pid  # the cards after it are where this look has found them
        await source.list_cards()
        second_pid = source.worker_pid
        assert second_pid not in (first_pid, None)
        await source.health(cards[1])
        assert source.worker_pid == second_pid  # not at every look
        clock.advance(SETTINGS.card_pauses.first_s)
        fake.control()
        await source.list_cards()
        assert (await source.health(cards[1])).healthy


@pytest.mark.slow
async def test_events_that_hang_stop_no_card(tmp_path: Path) -> None:
    async with worker(tmp_path, settings=HANGING) as (fake, source, _):
        card = (await source.list_cards()).cards[0]
        fake.control("hang EfmlGetEvent *")
        assert await source.wait_event(0.0) is None
        assert (await source.health(card)).healthy


async def test_the_same_call_goes_on_after_a_cancelled_one(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, _):
        card = (await source.list_cards()).cards[0]
        waiting = asyncio.create_task(source.wait_event(60.0), name="wait")
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await source.use(card)).memory_used_bytes == 1 << 30


async def test_calls_from_several_tasks_get_each_its_own_answer(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 6") as (_, source, _):
        cards = (await source.list_cards()).cards
        uses = await asyncio.gather(*(source.use(card) for card in cards for _ in range(5)))
    assert [use.memory_used_bytes for use in uses] == [(card.index + 1) << 30 for card in cards for _ in range(5)]
