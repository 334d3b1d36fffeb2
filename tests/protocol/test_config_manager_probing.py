"""Seeing the scheduler: its health over real HTTP and HTTPS, its process in /proc, and the wait for both."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from gcushare.config_manager.host.launch import HealthEndpoint
from gcushare.config_manager.host.running_scheduler import (
    FindScheduler,
    PollResult,
    Running,
    SchedulerUnhealthyError,
    WaitLimits,
    ask_health,
    find_process,
    wait_for_scheduler,
)
from gcushare.config_manager.host.systemd_unit import Systemctl
from gcushare.config_manager.plan.steps import AwaitScheduler
from gcushare.core.errors import GcushareError
from tests.protocol import kube_server
from tests.protocol.runtime_certificates import Authority
from tests.unit.config_manager_host import ManualClock

ENDPOINT = HealthEndpoint("https", "127.0.0.1", 10259)
AWAITED = AwaitScheduler(flag="config", value="/new", restarted=True)
LIMITS = WaitLimits(timeout_s=180, interval_s=1)


def serving(status: int, text: str, tls: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[str]:
    """An address with /healthz and nothing else."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=text) if request.path == "/healthz" else web.Response(status=404)

    return kube_server.serving(answer, tls)


async def test_a_scheduler_with_a_certificate_of_its_own_making_is_asked_all_the_same(tmp_path: Path) -> None:
    cert, key = Authority("self").issue("kube-scheduler").write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with serving(200, "ok", context) as url:
        assert await ask_health(f"{url}/healthz") == ""


async def test_what_is_wrong_with_a_scheduler_is_reported_in_words() -> None:
    async with serving(500, "[-]leaderElection failed: reason withheld") as url:
        problem = await ask_health(f"{url}/healthz")
        assert "answers 500 '[-]leaderElection failed" in problem
        assert "answers 404" in await ask_health(f"{url}/livez")
    assert "does not answer" in await ask_health(f"{url}/healthz")


def proc(root: Path, **processes: tuple[str, ...]) -> FindScheduler:
    """Make a /proc with these processes, by ``p<pid>``."""
    for name, arguments in processes.items():
        folder = root / name[1:]
        folder.mkdir()
        (folder / "cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in arguments))
        fields = " ".join(str(number) for number in range(3, 53))
        (folder / "stat").write_text(f"{name[1:]} (kube (sched) x) S {fields}\n")
        (folder / "status").write_text("Name:\tx\nUid:\t0\t0\t0\t0\n")
    (root / "meminfo").write_text("")
    return partial(find_process, root, "")


async def test_the_scheduler_is_found_among_the_hosts_processes(tmp_path: Path) -> None:
    found = await proc(
        tmp_path,
        p1=("/sbin/init",),
        p7=("grep", "kube-scheduler"),
        p12=("/usr/local/bin/kube-scheduler", "--config=/x"),
        p99=("kubectl", "logs", "kube-scheduler"),
    )(ENDPOINT)
    assert found == Running("12@21", ("/usr/local/bin/kube-scheduler", "--config=/x"))


@pytest.mark.parametrize("others", [{}, {"p9": ("kube-scheduler", "--config=/mine")}], ids=["alone", "next to ours"])
async def test_a_scheduler_in_a_network_of_its_own_is_not_the_nodes(
    tmp_path: Path, others: dict[str, tuple[str, ...]]
) -> None:
    processes = proc(tmp_path, p1=("/sbin/init",), p7=("kube-scheduler", "--config=/kind"), **others)
    for pid, network in {1: 4026531840, 7: 4026532600, 9: 4026531840}.items():
        if (tmp_path / str(pid)).is_dir():
            (tmp_path / str(pid) / "ns").mkdir()
            (tmp_path / str(pid) / "ns" / "net").symlink_to(f"net:[{network}]")
    found = await processes(ENDPOINT)
    assert (found.arguments if found is not None else ()) == (others.get("p9", ()))


KUBELETS = "0::/../../kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-2.scope"
SERVICE = "kube-scheduler.service"
OF_A_UNIT = f"12:cpu:/\n1:name=systemd:/system.slice/{SERVICE}"
OF_A_USER = "0::/user.slice/user-1000.slice"
NOT_ROOT = "4242 4242 4242 4242"


@pytest.mark.parametrize(
    ("unit", "group", "users", "is_found"),
    [
        pytest.param("", f"{OF_A_USER}/session-3.scope", "0 0 0 0", True, id="root"),
        pytest.param("", KUBELETS, NOT_ROOT, True, id="a pod that is not root"),
        pytest.param("", "0::/kubelet/kubepods/burstable/pod1/2", NOT_ROOT, True, id="cgroupfs"),
        pytest.param(SERVICE, OF_A_UNIT, NOT_ROOT, True, id="the unit's User="),
        pytest.param(SERVICE, OF_A_UNIT.replace("kube-s", "s"), NOT_ROOT, False, id="another"),
        pytest.param("", OF_A_UNIT, NOT_ROOT, False, id="no unit was named"),
        pytest.param("", "0::/system.slice/cron.service", NOT_ROOT, False, id="a user's timer"),
        pytest.param("", f"{OF_A_USER}/session-3.scope", "4242 0 0 0", False, id="half root"),
        pytest.param("", f"{OF_A_USER}/user@1000.service/kubepods/1", NOT_ROOT, False, id="made up"),
        pytest.param(
            SERVICE, f"{OF_A_USER}/user@1000.service/app.slice/{SERVICE}", NOT_ROOT, False, id="a user's own unit"
        ),
    ],
)
async def test_a_scheduler_counts_only_if_root_the_kubelet_or_the_unit_started_it(
    tmp_path: Path, unit: str, group: str, users: str, is_found: bool
) -> None:
    proc(tmp_path, p7=("kube-scheduler", "--config=/x"))
    (tmp_path / "7" / "status").write_text(f"Name:\tkube-scheduler\nUid:\t{users}\nGid:\t0\n")
    (tmp_path / "7" / "cgroup").write_text(f"{group}\n")
    assert (await find_process(tmp_path, unit, ENDPOINT) is not None) is is_found


def scheduler(instance: str, flag: str = "--config=/new") -> Running:
    return Running(instance, ("kube-scheduler", flag))


OLD, NEW, OTHER = scheduler("1", "--v=2"), scheduler("2"), scheduler("3")


async def waited(seen: Callable[[float], PollResult]) -> float:
    """Wait on a clock of our own; how long it took."""
    clock = ManualClock()
    start = clock.seconds

    async def poll(_: HealthEndpoint) -> PollResult:
        return seen(clock.seconds - start)

    await wait_for_scheduler(poll, ENDPOINT, AWAITED, clock, LIMITS, "1")
    return clock.seconds - start


@pytest.mark.parametrize(
    ("before", "until", "after", "waited_s"), [(OLD, 10, NEW, 15), (NEW, 4, OTHER, 9)], ids=["the old one", "a restart"]
)
async def test_a_scheduler_is_trusted_once_it_stayed_well(
    before: Running, until: float, after: Running, waited_s: float
) -> None:
    assert await waited(lambda now: PollResult(before if now < until else after, "")) == waited_s


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        pytest.param(lambda now: PollResult(OLD, ""), "the old one still runs", id="not restarted"),
        pytest.param(lambda now: PollResult(None, "no process"), "no process", id="gone"),
        pytest.param(lambda now: PollResult(NEW, "answers 500"), "answers 500", id="ill"),
        pytest.param(
            lambda now: PollResult(scheduler("9", "--config=/x"), ""),
            r"with --config \['/x'\], expected is --config=/new",
            id="another configuration",
        ),
        pytest.param(lambda now: PollResult(scheduler(str(now)), ""), "it keeps restarting", id="crash loop"),
    ],
)
async def test_what_does_not_come_up_ends_the_wait_in_time_with_the_reason(
    seen: Callable[[float], PollResult], message: str
) -> None:
    with pytest.raises(SchedulerUnhealthyError, match=message) as caught:
        await waited(seen)
    assert "within 180 s" in str(caught.value)


async def test_systemd_is_asked_to_read_its_units_and_then_to_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "systemctl"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ "$2" != bad.service ] || {{ echo no such unit >&2; exit 5; }}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    await Systemctl().reload()
    await Systemctl().restart("/etc/systemd/system/kube-scheduler.service")
    assert (tmp_path / "calls").read_text() == "daemon-reload\nrestart kube-scheduler.service\n"
    with pytest.raises(GcushareError, match=r"restart bad\.service ended with 5: no such unit"):
        await Systemctl().restart("/x/bad.service")
