"""``gcushare support-bundle``: settings, examination, archive, exit code."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

from gcushare._version import __version__
from gcushare.cli.doctor.checks.registry import examine
from gcushare.cli.doctor.gather import gather
from gcushare.cli.doctor.settings import BUNDLE_PROGRAM, BundleSettings, limits, sources
from gcushare.cli.support_bundle.archive import Archive, new_archive
from gcushare.cli.support_bundle.collect import Collector, LogLimits
from gcushare.cli.support_bundle.redact import Redactor
from gcushare.cli.terminal.progress import Progress
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import load_config
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.exit_codes import DONE


def main(surroundings: Surroundings | None = None) -> int:
    """Run ``gcushare support-bundle`` and return its exit code."""
    around = surroundings or Surroundings()
    return run_program(BUNDLE_PROGRAM, lambda settings: asyncio.run(make_bundle(settings, around)), surroundings=around)


async def make_bundle(settings: BundleSettings, around: Surroundings) -> int:
    """Collect the bundle and say where it is; incomplete is not failed: the manifest tells what is missing."""
    config = load_config(sources(settings.kube, around.environ))
    clock = SystemClock()
    began = clock.now()
    path = settings.file or Path(f"gcushare-support-{began:%Y%m%dT%H%M%SZ}.tar.gz")
    async with (
        KubeClient(config, program="gcushare-support-bundle", limits=limits(settings.kube)) as client,
        Progress(around.stderr, terminal=around.environ.get("TERM", "")) as progress,
    ):
        with new_archive(path, began, settings.max_size) as archive:
            facts = await gather(client, settings.where.wanted(), clock, progress)
            collector = Collector(client, facts, archive, progress, Redactor())
            await collector.collect(examine(facts), LogLimits(settings.log_lines, settings.log_size))
            archive.finish({"program": f"gcushare support-bundle {__version__}", "node": settings.where.node})
    around.stdout.write(_told(path, archive, began))
    return DONE


def _told(path: Path, archive: Archive, began: datetime) -> str:
    size = path.stat().st_size
    missing = f"; {len(archive.left_out)} left out, see MANIFEST.json in it" if archive.left_out else ""
    return f"{path}: {len(archive.entries)} files, {size} bytes, of {began:%Y-%m-%d %H:%M:%S} UTC{missing}\n"
