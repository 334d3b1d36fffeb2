"""The commands of this program: each wires the parts together and does its work."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from aiohttp import web

from gcushare.cluster.connection import open_cluster
from gcushare.config_manager.extender_address import find_extender
from gcushare.config_manager.host.files import HostFiles
from gcushare.config_manager.host.paths_and_record import SchedulerFile
from gcushare.config_manager.host.running_scheduler import (
    FindScheduler,
    WaitLimits,
    find_mirror_pod,
    find_process,
    poll_host,
)
from gcushare.config_manager.host.systemd_unit import Systemctl, UnitFile
from gcushare.config_manager.host.unit_files import unit_name
from gcushare.config_manager.manager import Manager, Prepared
from gcushare.config_manager.manager_settings import CommandSettings, PlaceSettings, RecoverNodesSettings, RunSettings
from gcushare.config_manager.node_reports import SharedConfigMap, read_reports, write_mode
from gcushare.config_manager.plan.execute import Executor
from gcushare.config_manager.plan.steps import describe, render_diff
from gcushare.config_manager.reconcile import Reconciler, State, WantedMode, hold_lease
from gcushare.config_manager.scheduler_config.versions import accepted_versions
from gcushare.config_manager.status import show_status
from gcushare.core.errors import ConfigError, ConflictError, GcushareError, Refused, RetryableError
from gcushare.core.wording import counted
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.election import ApiLease
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.health import HealthChecks, Heartbeat
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.shutdown import Shutdown, root_tasks
from gcushare.wire.contracts import CONFIG_MANAGER

Say = Callable[[str], None]
"""Prints one line of a command's answer."""

_POLL_S = 1.0
_DRAIN_S = 5.0
_LEAST_SILENCE_S = 900.0


@asynccontextmanager
async def open_manager(
    place: PlaceSettings, kube: KubeSettings, say: Say
) -> AsyncIterator[tuple[Manager, KubeClient | ConfigError]]:
    """Wire the parts together. The API server is not called before it is needed; the error says why it cannot be."""
    if not place.host_root.is_dir():
        raise ConfigError(f"--host-root {str(place.host_root)!r} is not a directory: mount the host's filesystem there")
    async with AsyncExitStack() as stack:
        client: KubeClient | ConfigError
        sources: list[FindScheduler] = [partial(find_process, place.host_root / "proc", unit_name(place.unit or ""))]
        try:
            client = await stack.enter_async_context(open_cluster(kube, program=CONFIG_MANAGER))
        except ConfigError as error:
            client = error
        if isinstance(client, KubeClient) and place.node_name is not None:
            sources.append(partial(find_mirror_pod, client, place.node_name))
        executor = Executor(
            files=HostFiles(place.host_root),
            poll=partial(poll_host, sources),
            systemd=Systemctl(),
            clock=SystemClock(),
            say=say,
            limits=WaitLimits(timeout_s=place.wait_timeout),
        )
        manager = Manager(
            place=place,
            executor=executor,
            find_version=partial(_find_version, client),
            restart=place.unit is None or place.restart,
        )
        yield manager, client


async def run_once(command: str, settings: CommandSettings, say: Say) -> int:
    """Carry out a command for the scheduler of this node: apply, recover, status, or one that shows what apply does."""
    _end_as_by_ctrl_c(signal.SIGTERM, signal.SIGHUP)
    async with open_manager(settings.place, settings.kube, say) as (manager, client):
        if command == "status":
            return await show_status(manager, say)
        if command == "recover":
            await manager.carry_out(await manager.prepare_recover())
            return DONE
        extender = await find_extender(client, settings.extender)
        if command == "render":
            say((await manager.render(extender)).rstrip("\n"))
            return DONE
        prepared = await manager.prepare_apply(extender)
        if command == "apply":
            await manager.carry_out(prepared)
            return DONE
        manager.check(prepared)
        if command == "plan":
            await _show_plan(manager, prepared, say)
    for line in render_diff(prepared.observed.snapshot, prepared.plan):
        say(line)
    return DONE


async def _show_plan(manager: Manager, prepared: Prepared, say: Say) -> None:
    observed, plan = prepared.observed, prepared.plan
    say(f"kube-scheduler {prepared.version}, started by {observed.layout.target}")
    for number, step in enumerate(plan.steps, 1):
        say(f"{number}. {describe(step)}")
    problem = await manager.executor.problem_before(observed, plan)
    refusal = (f"apply would be refused now, kube-scheduler is unhealthy: {problem}",) if problem else ()
    for note in (*plan.notes, *refusal):
        say(f"note: {note}")


def _end_as_by_ctrl_c(*numbers: signal.Signals) -> None:
    """Have signals cancel this task, so that a lost ssh connection leaves no change without its end."""
    task = asyncio.current_task()
    for number in numbers:
        # nohup ignores one of them, and only the main thread handles signals.
        is_default = signal.getsignal(number) is signal.SIG_DFL
        if task is not None and is_default and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def reconcile(settings: RunSettings, say: Say, shutdown: Shutdown) -> int:
    """Keep this node's scheduler in the desired state until the shutdown."""
    if settings.place.node_name is None:
        raise ConfigError("node-name is not set: give the pod NODE_NAME from spec.nodeName")
    async with open_manager(settings.place, settings.kube, say) as (manager, client):
        if isinstance(client, ConfigError):
            raise client
        # The time makes it differ between restarts of this pod, which must wait for an earlier holder like any other.
        identity = f"{settings.place.node_name}_{socket.gethostname()}_{asyncio.get_running_loop().time():.6f}"
        # A round waits for the API server (15 s by default) and for a scheduler, twice after a rollback. The wait for
        # the Lease is not silent.
        heart = Heartbeat("reconciler", max(_LEAST_SILENCE_S, 3 * settings.place.wait_timeout))
        state = SharedConfigMap(client, settings.extender, settings.namespace, settings.place.node_name)
        lease, clock = ApiLease(client, settings.namespace, CONFIG_MANAGER), SystemClock()
        reconciler = Reconciler(
            manager=manager,
            cluster=state,
            hold_lease=partial(hold_lease, lease, identity, clock=clock, beat=heart.beat),
            clock=clock,
            interval_s=settings.interval,
            beat=heart.beat,
        )
        health = HealthChecks()
        health.add_live("reconciler", heart.check)
        health.add_ready("scheduler", reconciler.check)
        app = web.Application()
        app.add_routes(health.routes())
        server = await start_server(app, settings.serve)
        try:
            async with root_tasks(shutdown, drain_s=_DRAIN_S) as tasks:
                tasks.start("keep the scheduler", reconciler.run())
        finally:
            await server.stop(_DRAIN_S)
    return DONE


async def uninstall(settings: RecoverNodesSettings, say: Say) -> int:
    """Have every node recover and wait until all have reported it; an API server may fail for a while."""
    async with open_cluster(settings.kube, program=CONFIG_MANAGER) as client:
        clock = SystemClock()
        deadline = clock.monotonic() + settings.wait_timeout
        is_asked, said = False, ""
        while True:
            pause_s = _POLL_S
            try:
                if not is_asked:
                    await write_mode(client, settings.namespace, WantedMode.RECOVER)
                    is_asked = True
                reports = await read_reports(client, settings.namespace)
            except (RetryableError, ConflictError) as error:
                reasons = str(error)
                if isinstance(error, RetryableError):
                    pause_s = max(pause_s, error.delay_s or 0.0)
            else:
                waiting = [report for report in reports if report.state != State.RECOVERED.value]
                if not waiting:
                    say(
                        f"{counted(len(reports), 'node')} recovered: "
                        f"{', '.join(report.node for report in reports) or 'none'}"
                    )
                    return DONE
                reasons = "; ".join(f"{r.node} is {r.state} {r.reason}".strip() for r in waiting)
            if reasons != said:
                say(f"waiting: {reasons}")
                said = reasons
            left_s = deadline - clock.monotonic()
            if left_s <= 0:
                raise Refused(
                    f"not every scheduler is recovered after {settings.wait_timeout:g} s: {reasons}. Delete Nodes that "
                    "are gone for good. On a node where no config manager runs any more, run gcushare-config-manager "
                    f"recover, then take its report away: kubectl patch configmap {CONFIG_MANAGER} -n "
                    f'{settings.namespace} --type merge -p \'{{"data":{{"node.NAME":null}}}}\''
                )
            await clock.sleep(min(pause_s, left_s))


async def _find_version(client: KubeClient | ConfigError, target: SchedulerFile | None) -> str | None:
    """Ask the scheduler's own program, which a unit names, else the API server.

    Raises:
        GcushareError: neither can be asked. The message names the setting to give instead.
    """
    instead = f"give the version with --scheduler-version (accepted are {accepted_versions()})"
    if not isinstance(target, UnitFile):
        image = f": its image {target.image!r} does not name it" if target is not None else ""
        unknown = f"kube-scheduler's version is not known{image}"
        if isinstance(client, ConfigError):
            raise ConfigError(f"{unknown}, and the API server cannot be asked: {client}; or {instead}")
        try:
            return await client.version()
        except GcushareError as error:
            raise GcushareError(f"{unknown}, and the API server does not: {error}; or {instead}") from error
    try:
        process = await asyncio.create_subprocess_exec(
            target.program, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError as error:
        raise GcushareError(f"{target.program!r} --version cannot be run: {error}; {instead}") from error
    answer, _ = await process.communicate()
    return answer.decode(errors="replace").strip() or None
