"""What ``status`` prints of the scheduler of this node: from its files, its process and its health, as they are now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gcushare.cluster.diagnosis.schedulers import parse_configuration
from gcushare.config_manager.host.files import HostFileError, HostFiles, behind_links
from gcushare.config_manager.host.launch import health_endpoint, own_flag, scheduler_flags
from gcushare.config_manager.host.running_scheduler import PollResult, find_problem
from gcushare.config_manager.manager import Manager
from gcushare.config_manager.plan.base_config import BaseConfig, find_base
from gcushare.config_manager.plan.observe import ObservedScheduler
from gcushare.config_manager.plan.steps import AwaitScheduler
from gcushare.config_manager.scheduler_config.document import existing_config
from gcushare.config_manager.scheduler_config.extender_entry import OUR_PATHS
from gcushare.core.errors import ConfigError, GcushareError, NotFoundError, Refused, RemoteContractError
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.wire.flags import Flag

Say = Callable[[str], None]


async def show_status(manager: Manager, say: Say) -> int:
    """Print how the scheduler is started and its health; exit code 1 unless it is healthy and calls the extender."""
    try:
        prepared = await manager.prepare_recover()
    except HostFileError:
        raise
    except (ConfigError, NotFoundError, Refused) as error:
        return await _show_running(manager, str(error), say)
    observed, files = prepared.observed, manager.executor.files
    result = await manager.executor.poll(health_endpoint(observed.target.flags))
    say(f"scheduler: {observed.layout.target}, {prepared.version or 'version unknown'}, {result.problem or 'healthy'}")
    own = observed.layout.own_configs
    flag = own_flag(observed.target.flags, own) if observed.target.has_trace(own) else None
    if flag is None:
        read = partial(find_base, files, observed.layout, observed.pristine)
        flag, shown = _find_by_hand(observed.pristine.flags, read)
        say(f"extender: {shown}")
    else:
        say(f"extender: configured by --{flag.name}={flag.value}")
    for note in observed.notes:
        say(f"note: {note}")
    if observed.record is not None:
        problem = _unproven(observed)
        say(f"proven: no, {problem}" if problem else "proven: yes")
    if observed.edited_since:
        say(f"edited: {observed.layout.target} was changed by someone else after gcushare")
    if observed.own_edited is not None:
        say(f"edited: {observed.own_edited.path} has an edit by hand, which is kept")
    try:
        manager.check(prepared)
    except GcushareError as error:
        say(f"note: recover would be refused now: {error}")
    return _show_use(flag, result, say)


async def _show_running(manager: Manager, why: str, say: Say) -> int:
    """Print what the running scheduler's own command line shows where no file is known that starts it."""
    files = manager.executor.files
    seen = (await manager.executor.poll(health_endpoint(()))).running
    flags = scheduler_flags(seen.arguments) if seen is not None else ()
    result = await manager.executor.poll(health_endpoint(flags))
    say(f"scheduler: not started by a file that gcushare changes, {result.problem or 'healthy'}")
    flag, shown = _find_by_hand(flags, partial(_read_named, files, flags))
    say(f"extender: {shown}")
    say(f"note: {why}")
    return _show_use(flag, result, say)


def _show_use(flag: Flag | None, result: PollResult, say: Say) -> int:
    """Print whether the running scheduler reads what ``flag`` names; returns the exit code."""
    problem = "it does not call the extender"
    if flag is not None:
        problem = find_problem(result, AwaitScheduler(flag=flag.name, value=flag.value, restarted=False))
    say(f"used by the running scheduler: no, {problem}" if problem else "used by the running scheduler: yes")
    return FAILED if problem else DONE


def _find_by_hand(flags: Sequence[Flag], read: Callable[[], BaseConfig | None]) -> tuple[Flag | None, str]:
    """Look for our extender in a configuration that somebody else made; returns the flag that names it, and words."""
    try:
        flag, base = existing_config(flags), read()
        extenders = () if base is None else parse_configuration(base.text)[0]
    except (ConfigError, Refused, RemoteContractError) as error:
        return None, f"not known: {error}"
    urls = [each.url for each in extenders if each.path in OUR_PATHS]
    if flag is None or base is None or not urls:
        return None, "not configured"
    return flag, f"configured by hand: --{flag.name} names {base.path!r}, which calls {urls[0]}"


def _read_named(files: HostFiles, flags: Sequence[Flag]) -> BaseConfig | None:
    """Read the file that a running scheduler's flags name, by its path on the host.

    Raises:
        ConfigError: it does not exist there.
    """
    flag = existing_config(flags)
    path = "" if flag is None else behind_links(files, flag.value)
    state = files.read(path) if path.startswith("/") else None
    if flag is not None and state is None:
        raise ConfigError(f"--{flag.name}={flag.value} names no file of this host: look where kube-scheduler sees it")
    return None if state is None else BaseConfig(path, state)


def _unproven(observed: ObservedScheduler) -> str:
    """Why it is not known that the scheduler starts and is healthy with the present files; empty if it is."""
    if not observed.has_trace:
        return f"{observed.layout.target} does not contain gcushare's change any more"
    if observed.own_config is None:
        return "gcushare's configuration is gone"
    if observed.is_unproven:
        return "the last change was not seen to the end, or the scheduler was not restarted by gcushare"
    return "" if observed.was_seen_healthy else f"{observed.own_config.path} was edited since"
