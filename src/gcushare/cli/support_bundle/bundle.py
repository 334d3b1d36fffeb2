"""``gcushare support-bundle`` at work: examine, collect, write the archive, say where it is."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

from gcushare._version import __version__
from gcushare.cli.doctor.checks.registry import examine
from gcushare.cli.doctor.gather import gather
from gcushare.cli.doctor.settings import BundleSettings
from gcushare.cli.support_bundle.archive import Archive, new_archive
from gcushare.cli.support_bundle.collect import Collector, LogLimits
from gcushare.cli.support_bundle.redact import Redactor
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.kube.clock import SystemClock
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE


def run(settings: BundleSettings, around: Surroundings) -> int:
    """Make a bundle and say where it is; returns the exit code.

    Raises:
        GcushareError: the API server does not answer, or the archive cannot be written.
    """
    return asyncio.run(_make_bundle(settings, around))


async def _make_bundle(settings: BundleSettings, around: Surroundings) -> int:
    """Collect the bundle; incomplete is not failed: the manifest tells what is missing."""
    clock = SystemClock()
    began = clock.now()
    path = settings.file or Path(f"gcushare-support-{began:%Y%m%dT%H%M%SZ}.tar.gz")
    async with (
        open_cluster(settings.kube, around.environ, program="gcushare-support-bundle") as client,
        Screen(around).progress() as progress,
    ):
        with new_archive(path, began, settings.max_size) as archive:
            facts = await gather(client, settings.where, clock, progress)
            collector = Collector(client, facts, archive, progress, Redactor())
            await collector.collect(examine(facts), LogLimits(settings.log_lines, settings.log_size))
            archive.finish({"program": f"gcushare support-bundle {__version__}", "node": settings.where.node})
    around.stdout.write(_told(path, archive, began))
    return DONE


def _told(path: Path, archive: Archive, began: datetime) -> str:
    size = path.stat().st_size
    missing = f"; {len(archive.left_out)} left out, see MANIFEST.json in it" if archive.left_out else ""
    return f"{path}: {len(archive.entries)} files, {size} bytes, of {began:%Y-%m-%d %H:%M:%S} UTC{missing}\n"
