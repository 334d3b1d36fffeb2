"""The command ``gcushare-scheduler-extender``: imports its settings; the program itself only when it runs."""

from __future__ import annotations

from dataclasses import replace

from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.settings.old_flags import GLOG_FLAGS
from gcushare.scheduler_extender.extender_settings import PROGRAM, ExtenderSettings

_OLD_VARIABLES = {"PORT": "--listen-port", "LOG_LEVEL": "--log-level"}
_OLD_LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error"}


def main(process: ProcessContext) -> int:
    """Run the program and return its exit code."""
    return run_program(PROGRAM, _run, log_settings=lambda settings: settings.log, process=process, old_flags=GLOG_FLAGS)


def main_gpushare(process: ProcessContext) -> int:
    """Run it as ``gpushare-sche-extender``: NVIDIA cards, and that program's variables; returns the exit code."""
    arguments = ["--vendor=aliyun"]
    for variable, flag in _OLD_VARIABLES.items():
        value = process.environ.get(variable)
        if value and not (variable == "LOG_LEVEL" and value not in _OLD_LEVELS):
            arguments.append(f"{flag}={_OLD_LEVELS.get(value, value)}")
            process.stderr.write(f"note: {variable}={value} is taken as {arguments[-1]}\n")
    return main(replace(process, argv=(*arguments, *process.argv)))


def _run(settings: ExtenderSettings) -> int:
    from gcushare.runtime.shutdown import run as run_until_shutdown
    from gcushare.scheduler_extender.app import run

    return run_until_shutdown(lambda shutdown: run(settings, shutdown))
