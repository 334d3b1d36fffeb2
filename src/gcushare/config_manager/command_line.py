"""The command line of ``gcushare-config-manager``. The program itself is imported only when a command runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gcushare._version import __version__
from gcushare.config_manager.manager_settings import CommandSettings, RunSettings, UninstallSettings
from gcushare.runtime.entry import ProcessContext, columns_of, run_program
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.help_text import render_overview
from gcushare.wire.contracts import CONFIG_MANAGER

T = TypeVar("T")

Say = Callable[[str], None]
_ONE_SHOTS = {
    "plan": "Show what apply would do and the diff of every file, without touching anything.",
    "apply": "Make kube-scheduler call the extender; put everything back if it does not come up.",
    "recover": "Restore the scheduler's file, byte for byte, and remove the files that were written.",
    "status": "Show how kube-scheduler is started, whether it uses the extender, and its health.",
    "render": "Print the configuration that kube-scheduler would read.",
    "diff": "Print what apply would change, as a unified diff.",
}
_RUN = "Keep this node's kube-scheduler configured, one node at a time: what the DaemonSet runs."
_UNINSTALL = "Have every node recover, and wait for all of them: what the chart does before it is removed."
_NOTES = (
    "Files: the configuration /etc/kubernetes/scheduler-extender-config.json (a Policy, below 1.23) or "
    "/etc/kubernetes/scheduler-extender-config-v1.23+.yaml, the backup /etc/kubernetes/kube-scheduler.back.yaml (or "
    "kube-scheduler.back.service), the record /etc/kubernetes/gcushare-config-manager.json. With --files-dir they "
    "are there instead. An existing configuration is merged into gcushare's, and itself stays as it is."
)


def main(process: ProcessContext | None = None) -> int:
    """Run the command that the first argument names; returns the exit code."""
    process = process or ProcessContext()
    command = process.argv[0] if process.argv else ""
    rest = replace(process, argv=tuple(process.argv[1:]))

    def say(line: str) -> None:
        process.stdout.write(line + "\n")
        process.stdout.flush()

    if command in _ONE_SHOTS:
        program = _program(command, _ONE_SHOTS[command], CommandSettings)
        return run_program(program, lambda found: _run_once(command, found, say), process=rest)
    if command == "run":
        loop = _program(command, _RUN, RunSettings)
        return run_program(loop, lambda found: _run(found, say), log_settings=lambda each: each.log, process=rest)
    if command == "uninstall":
        program_of_all = _program(command, _UNINSTALL, UninstallSettings)
        return run_program(program_of_all, lambda found: _uninstall(found, say), process=rest)
    if command == "--version":
        say(f"{CONFIG_MANAGER} {__version__}")
        return DONE
    if command in ("--help", "-h", ""):
        process.stdout.write(_overview(columns_of(process)))
        return DONE if command else MISUSED
    process.stderr.write(f"error: unknown command {command!r}: expected one of {', '.join(_commands())}\n")
    return MISUSED


def _run_once(command: str, settings: CommandSettings, say: Say) -> int:
    import asyncio

    from gcushare.config_manager import commands

    acts = {
        "plan": commands.show_plan,
        "apply": commands.apply,
        "recover": commands.recover,
        "status": commands.status,
        "render": commands.render,
        "diff": commands.show_diff,
    }
    return asyncio.run(acts[command](settings, say))


def _run(settings: RunSettings, say: Say) -> int:
    from gcushare.config_manager.commands import reconcile
    from gcushare.runtime.shutdown import run

    return run(lambda shutdown: reconcile(settings, say, shutdown))


def _uninstall(settings: UninstallSettings, say: Say) -> int:
    import asyncio

    from gcushare.config_manager.commands import uninstall

    return asyncio.run(uninstall(settings, say))


def _program(command: str, summary: str, settings: type[T]) -> Program[T]:
    name = f"{CONFIG_MANAGER} {command}"
    examples = (
        (f"{name} --extender-url http://10.96.1.37:32766", "the static pod of kubeadm, the extender's address given"),
        (f"{name} --unit /etc/systemd/system/kube-scheduler.service --restart", "a scheduler that systemd starts"),
    )
    shown = examples if settings is CommandSettings else ()
    return Program(name=name, summary=summary, version=__version__, settings=settings, examples=shown, notes=_NOTES)


def _commands() -> dict[str, str]:
    return {**_ONE_SHOTS, "run": _RUN, "uninstall": _UNINSTALL}


def _overview(columns: str) -> str:
    summary = "Make kube-scheduler call the extender, and undo it."
    return render_overview(CONFIG_MANAGER, summary, tuple(_commands().items()), notes=_NOTES, columns=columns)
