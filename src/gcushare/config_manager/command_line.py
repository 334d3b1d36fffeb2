"""The command line of ``gcushare-config-manager``. The program itself is imported only when a command runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from gcushare._version import __version__
from gcushare.config_manager.manager_settings import CommandSettings, RecoverNodesSettings, RunSettings
from gcushare.runtime.entry import ProcessContext, columns_of, run_program
from gcushare.runtime.exit_codes import DONE, FAILED, MISUSED
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.help_text import render_overview
from gcushare.runtime.streams import OutputError
from gcushare.wire.contracts import CONFIG_MANAGER

T = TypeVar("T")

_ONE_SHOTS = {
    "plan": "Show what apply would do and the diff of every file, without touching anything.",
    "apply": "Make kube-scheduler call the extender; put everything back if it does not come up.",
    "recover": "Restore the scheduler's file, byte for byte, and remove the files that were written.",
    "status": "Show how kube-scheduler is started, whether it uses the extender, and its health.",
    "render": "Print the configuration that kube-scheduler would read, or one to use by hand if apply refuses it.",
    "diff": "Print what apply would change, as a unified diff.",
}
_CHANGES = ("apply", "recover")
_COMMANDS = {
    **_ONE_SHOTS,
    "run": "Keep this node's kube-scheduler configured, one node at a time: what the DaemonSet runs.",
    "uninstall": "Have every node recover, and wait for all of them: what the chart does before it is removed.",
}
_NOTES = (
    "Files: the configuration /etc/kubernetes/scheduler-extender-config.json (a Policy, below 1.23) or "
    "/etc/kubernetes/scheduler-extender-config-v1.23+.yaml, the backup /etc/kubernetes/kube-scheduler.back.yaml (or "
    "kube-scheduler.back.service), the record /etc/kubernetes/gcushare-config-manager.json. With --files-dir they "
    "are there instead. An existing configuration is merged into gcushare's, and itself stays as it is."
)


def main(process: ProcessContext) -> int:
    """Run the command that the first argument names; returns the exit code."""
    command = process.argv[0] if process.argv else ""
    rest = replace(process, argv=tuple(process.argv[1:]))
    unsaid: list[OutputError] = []

    def say(line: str) -> None:
        try:
            process.stdout.write(line + "\n")
            process.stdout.flush()
        except OutputError as error:
            # A change goes on to its end, even if its lines are no longer read.
            if command not in _CHANGES:
                raise
            unsaid.append(error)

    def run_once(settings: CommandSettings) -> int:
        import asyncio

        from gcushare.config_manager import commands

        try:
            code = asyncio.run(commands.run_once(command, settings, say))
        except asyncio.CancelledError:  # by a signal, before there was anything to put back
            raise KeyboardInterrupt from None
        if unsaid:
            raise unsaid[0]
        return code

    def run_loop(settings: RunSettings) -> int:
        from gcushare.config_manager import commands
        from gcushare.runtime.shutdown import run

        return run(lambda shutdown: commands.reconcile(settings, say, shutdown))

    def uninstall(settings: RecoverNodesSettings) -> int:
        import asyncio

        from gcushare.config_manager import commands

        return asyncio.run(commands.uninstall(settings, say))

    if command in _ONE_SHOTS:
        return run_program(_program(command, CommandSettings), run_once, process=rest)
    if command == "run":
        program = _program(command, RunSettings)
        return run_program(program, run_loop, log_settings=lambda settings: settings.log, process=rest)
    if command == "uninstall":
        return run_program(_program(command, RecoverNodesSettings), uninstall, process=rest)
    if command == "--version":
        say(f"{CONFIG_MANAGER} {__version__}")
        return DONE
    if command in ("--help", "-h", ""):
        summary, columns = "Make kube-scheduler call the extender, and undo it.", columns_of(process)
        page = render_overview(CONFIG_MANAGER, summary, tuple(_COMMANDS.items()), notes=_NOTES, columns=columns)
        process.stdout.write(page)
        return DONE if command else MISUSED
    process.stderr.write(f"error: unknown command {command!r}: expected one of {', '.join(_COMMANDS)}\n")
    return MISUSED


def _program(command: str, settings: type[T]) -> Program[T]:
    name = f"{CONFIG_MANAGER} {command}"
    examples = (
        (f"{name} --extender-url http://10.96.1.37:32766", "the static pod of kubeadm, the extender's address given"),
        (f"{name} --unit /etc/systemd/system/kube-scheduler.service --restart", "a scheduler that systemd starts"),
    )
    shown = examples if settings is CommandSettings else ()
    asked = {FAILED: "It does not run, is not healthy, or does not call the extender; stdout says which."}
    return Program(
        name=name,
        summary=_COMMANDS[command],
        settings=settings,
        examples=shown,
        exit_status=asked if command == "status" else {},
        notes=_NOTES,
    )
