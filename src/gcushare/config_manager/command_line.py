"""Command line of ``gcushare-config-manager``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from gcushare._version import __version__
from gcushare.config_manager import commands
from gcushare.config_manager.commands import Say
from gcushare.config_manager.settings import CommandSettings, RunSettings, UninstallSettings
from gcushare.runtime.entry import Surroundings, columns_of, run_program
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.help_text import render_overview
from gcushare.runtime.shutdown import Shutdown, run

T = TypeVar("T")

NAME = "gcushare-config-manager"
_OneShot = Callable[[CommandSettings, Say], Awaitable[int]]

_ONE_SHOTS: dict[str, tuple[_OneShot, str]] = {
    "plan": (commands.show_plan, "Show what apply would do and the diff of every file, without touching anything."),
    "apply": (commands.apply, "Make kube-scheduler call the extender; put everything back if it does not come up."),
    "recover": (commands.recover, "Put back what was there before, byte for byte, and remove what was written."),
    "status": (commands.status, "Show how kube-scheduler is started, and whether it uses the extender in health."),
    "render": (commands.render, "Print the configuration that kube-scheduler would read."),
    "diff": (commands.show_diff, "Print what apply would change, as a unified diff."),
}
_RUN = "Keep this node's kube-scheduler configured, one node at a time: what the DaemonSet runs."
_UNINSTALL = "Have every node recover, and wait until all have: what the chart does before it is removed."
_NOTES = (
    "Files: the configuration /etc/kubernetes/scheduler-extender-config.json (a Policy, below 1.23) or "
    "/etc/kubernetes/scheduler-extender-config-v1.23+.yaml, the backup /etc/kubernetes/kube-scheduler.back.yaml (or "
    "kube-scheduler.back.service), the record /etc/kubernetes/gcushare-config-manager.json. With --files-dir they "
    "lie there instead. An existing configuration is merged into ours and itself left as it is."
)


def main(surroundings: Surroundings | None = None) -> int:
    """Run the command that the first argument names; returns the exit code."""
    around = surroundings or Surroundings()
    command = around.argv[0] if around.argv else ""
    rest = replace(around, argv=tuple(around.argv[1:]))

    def say(line: str) -> None:
        around.stdout.write(line + "\n")
        around.stdout.flush()

    if command in _ONE_SHOTS:
        act, summary = _ONE_SHOTS[command]
        return run_program(_program(command, summary, CommandSettings), _once(act, say), surroundings=rest)
    if command == "run":
        program = _program(command, _RUN, RunSettings)
        return run_program(program, _loop(say), log_settings=lambda found: found.log, surroundings=rest)
    if command == "uninstall":
        program_of_all = _program(command, _UNINSTALL, UninstallSettings)
        return run_program(program_of_all, lambda found: asyncio.run(commands.uninstall(found, say)), surroundings=rest)
    if command == "--version":
        say(f"{NAME} {__version__}")
        return DONE
    if command in ("--help", "-h", ""):
        around.stdout.write(_overview(columns_of(around)))
        return DONE if command else MISUSED
    around.stderr.write(f"error: unknown command {command!r}: expected one of {', '.join(_commands())}\n")
    return MISUSED


def _once(act: _OneShot, say: Say) -> Callable[[CommandSettings], int]:
    async def work(found: CommandSettings) -> int:
        return await act(found, say)

    return lambda found: asyncio.run(work(found))


def _loop(say: Say) -> Callable[[RunSettings], int]:
    def start(found: RunSettings) -> int:
        async def work(shutdown: Shutdown) -> int:
            return await commands.keep(found, say, shutdown)

        return run(work)

    return start


def _program(command: str, summary: str, settings: type[T]) -> Program[T]:
    name = f"{NAME} {command}"
    examples = (
        (f"{name} --extender-url http://10.96.1.37:32766", "the static pod of kubeadm, the extender's address given"),
        (f"{name} --unit /etc/systemd/system/kube-scheduler.service --restart", "a scheduler that systemd starts"),
    )
    shown = examples if settings is CommandSettings else ()
    return Program(name=name, summary=summary, version=__version__, settings=settings, examples=shown, notes=_NOTES)


def _commands() -> dict[str, str]:
    return {**{name: summary for name, (_, summary) in _ONE_SHOTS.items()}, "run": _RUN, "uninstall": _UNINSTALL}


def _overview(columns: str) -> str:
    summary = "Make kube-scheduler call the extender, and undo it."
    return render_overview(NAME, summary, tuple(_commands().items()), notes=_NOTES, columns=columns)
