"""Configure one node's scheduler: find its files, decide what to do, and carry it out."""

from __future__ import annotations

import contextlib
import logging
import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gcushare.config_manager.host.files import HostFileError
from gcushare.config_manager.host.launch import health_endpoint, known_flags, scheduler_flags
from gcushare.config_manager.host.paths_and_record import (
    CONFIG_NAME,
    POLICY_NAME,
    RECORD_NAME,
    Layout,
    SchedulerFile,
    sha256,
)
from gcushare.config_manager.host.running_scheduler import SchedulerUnknownError
from gcushare.config_manager.host.unit_files import Surroundings, find_unit
from gcushare.config_manager.manager_settings import PlaceSettings
from gcushare.config_manager.plan.base_config import check_restorable
from gcushare.config_manager.plan.decide import plan_apply, plan_recover
from gcushare.config_manager.plan.execute import Executor
from gcushare.config_manager.plan.observe import ObservedScheduler, find_directory, find_manifest, observe, read_target
from gcushare.config_manager.plan.steps import Plan, RemoveFile, Switch, WriteFile, outcome
from gcushare.config_manager.scheduler_config.document import new_config, notes_for_hand
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.scheduler_config.versions import ConfigFormat, Version, accepted_versions, parse_version
from gcushare.core.errors import ConfigError, GcushareError, NotFoundError, Refused
from gcushare.core.log_fields import fields
from gcushare.kube.election import Tenure
from gcushare.wire.flags import Flag

logger = logging.getLogger(__name__)

VersionSource = Callable[[SchedulerFile | None], Awaitable[str | None]]
"""Finds the scheduler's version if its file does not name one, or cannot be read; None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A decision with the observation that it is based on; ``undo`` removes all of our change."""

    observed: ObservedScheduler
    version: Version | None
    """The scheduler's; None if it is not known, which only stops a change."""
    plan: Plan
    undo: Plan
    extender: ExtenderEntry | None = None
    """The extender that the scheduler will call; None if our change is removed."""

    @property
    def config(self) -> bytes:
        """The configuration that the scheduler would read."""
        observed = self.observed
        after = outcome(observed.snapshot, self.plan)
        found = [after[path] for path in sorted(observed.layout.own_configs) if after[path] is not None]
        return found[0].content if found and found[0] is not None else b""

    @property
    def fingerprint(self) -> str:
        """Equal for equal decisions on equal files, so that a failed one is not tried again at once."""
        return sha256(repr((self.plan.steps, self.observed.target.text)).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Plans and changes one scheduler. With ``restart`` false the admin restarts the unit."""

    place: PlaceSettings
    executor: Executor
    find_version: VersionSource
    restart: bool = True

    def layout(self) -> Layout:
        """Find the scheduler's file and the directory of our files.

        Raises:
            As ``find_manifest``, ``find_unit`` and ``read_target``.
        """
        place, files = self.place, self.executor.files
        target, around = place.manifest, Surroundings()
        if place.unit is not None:
            target, around = find_unit(files, place.unit)
        target = target or find_manifest(files, f"{place.kubernetes_dir}/manifests")
        directory = place.files_dir or place.kubernetes_dir
        layout = Layout(directory, target, is_unit=place.unit is not None, around=around)
        if place.files_dir is not None:
            return layout
        _, scheduler = read_target(files, layout)
        return replace(layout, directory=find_directory(scheduler) or layout.directory)

    def is_untouched(self) -> bool:
        """Whether nothing was ever changed on this node, even if the scheduler's file cannot be found or parsed.

        Our record is written first and removed last, and a changed scheduler needs our configuration.
        """
        place = self.place
        ours = {RECORD_NAME, POLICY_NAME, CONFIG_NAME}
        folders = {place.files_dir or place.kubernetes_dir, place.kubernetes_dir}
        return not any(ours.intersection(self.executor.files.names(each)) for each in folders)

    async def prepare_apply(self, extender: ExtenderEntry) -> Prepared:
        """Decide what to do to apply, without any change."""
        layout = self.layout()
        _, target = read_target(self.executor.files, layout)
        version = await self._version(target)
        observed = observe(self.executor.files, layout)
        undo = plan_recover(observed, version, restart=self.restart)
        plan = plan_apply(observed, extender, version, restart=self.restart)
        return Prepared(observed=observed, version=version, plan=plan, undo=undo, extender=extender)

    def check(self, prepared: Prepared) -> None:
        """Check that what was decided can be written, and that recovering leaves a scheduler; changes nothing.

        Raises:
            HostFileError, UnsafePathError: a directory takes no files, or others can write to it.
            Refused: the configuration that the scheduler is to read without our change is gone or broken.
        """
        files, steps, observed = self.executor.files, prepared.plan.steps, prepared.observed
        if prepared.extender is None and (observed.has_trace or observed.record is not None):
            check_restorable(files, observed.layout, observed.pristine, prepared.version, observed.kept_copy)
        written = [step.path for step in steps if isinstance(step, WriteFile | RemoveFile)]
        written += [step.target for step in steps if isinstance(step, Switch)]
        for path in dict.fromkeys(written):
            files.check(path)

    async def render(self, extender: ExtenderEntry) -> str:
        """Write the configuration that the scheduler would read.

        If this program cannot read how the scheduler is started, it is one to configure the scheduler with by hand,
        with the flags of the running scheduler, or else with those of its file that are known.
        """
        target: SchedulerFile | None = None
        try:
            layout = self.layout()
            _, target = read_target(self.executor.files, layout)
            observe(self.executor.files, layout)
        except HostFileError:
            raise
        except (ConfigError, NotFoundError, Refused) as error:
            flags = await self._running_flags() or (() if target is None else known_flags(target.words))
            document = new_config(extender, await self._version(target), flags)
            if document.format is ConfigFormat.POLICY:
                return document.text
            return notes_for_hand(str(error)) + document.text
        return (await self.prepare_apply(extender)).config.decode()

    async def _running_flags(self) -> tuple[Flag, ...]:
        """Read the command line of the scheduler that runs here; empty if none does, or it has our configuration."""
        try:
            running = (await self.executor.poll(health_endpoint(()))).running
        except SchedulerUnknownError:
            return ()
        flags = () if running is None else scheduler_flags(running.arguments)
        is_ours = any(posixpath.basename(flag.value) in (POLICY_NAME, CONFIG_NAME) for flag in flags)
        return () if is_ours else flags

    async def prepare_recover(self) -> Prepared:
        """Decide what to do to recover, without any change."""
        observed = observe(self.executor.files, self.layout(), with_base=False)
        version: Version | None = None
        try:
            version = await self._version(observed.target)
        except GcushareError as error:
            logger.debug("kube-scheduler's version is not known %s", fields(reason=error))
            with contextlib.suppress(ConfigError):  # the version of the last change is better than none
                version = parse_version(observed.record.scheduler_version) if observed.record is not None else None
        plan = plan_recover(observed, version, restart=self.restart)
        return Prepared(observed=observed, version=version, plan=plan, undo=plan)

    async def carry_out(self, prepared: Prepared, tenure: Tenure | None = None) -> None:
        """Carry out what ``prepare_apply`` or ``prepare_recover`` decided.

        Raises:
            As ``check``, before any change, and as the ``Executor`` does.
        """
        self.check(prepared)
        observed, plan = prepared.observed, prepared.plan
        done = fields(target=observed.layout.target, version=prepared.version or "unknown", steps=len(plan.steps))
        if prepared.extender is None:
            await self.executor.recover(observed, plan, tenure)
            logger.info("scheduler recovered %s", done)
        else:
            await self.executor.apply(observed, plan, prepared.undo, tenure)
            logger.info("scheduler configured %s", done)

    async def _version(self, target: SchedulerFile | None) -> Version:
        """Take the version from the settings, else from the file, else find it.

        Raises:
            ConfigError: it is unknown or not supported.
        """
        known = self.place.scheduler_version or (target.version if target is not None else None)
        if known is not None:
            return known
        found = await self.find_version(target)
        if found is None:
            raise ConfigError(
                "the version of kube-scheduler is unknown: give it with --scheduler-version (accepted are "
                f"{accepted_versions()})"
            )
        return parse_version(found)
