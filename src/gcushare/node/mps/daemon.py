"""Run the MPS control daemon of a node in a container of its own: folders, start, health, state, end.

A daemon that ends is not restarted here: the container ends with it, and the kubelet starts a new one. Processes that
used the old daemon have lost their contexts by then. The plugin sees a new ``instance`` and posts Events on their pods.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.node.mps.state import MpsFolders, MpsState, write_state
from gcushare.runtime.shutdown import Shutdown

ANSWER_BYTES = 1 << 16
HEALTH_COMMAND = "get_default_active_thread_percentage"
"""A healthy daemon answers it without starting anything."""


class MpsControl:
    """The program ``binary``, for the daemon of these folders."""

    def __init__(self, binary: Path, folders: MpsFolders, *, timeout_s: float = 10.0) -> None:
        self.binary = binary
        self._folders = folders
        self._timeout_s = timeout_s

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which the daemon, its servers and this program find each other."""
        return {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folders.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folders.log),
        }

    async def ask(self, command: str) -> str:
        """Send one command; returns the answer.

        Raises:
            DeviceError: the program is missing, no daemon answers in time, or it refuses.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                str(self.binary),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self.environment,
            )
        except OSError as error:
            raise DeviceError(f"{str(self.binary)!r} cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._timeout_s):
                output, _ = await process.communicate(f"{command}\n".encode())
        except TimeoutError:
            raise DeviceError(f"the MPS daemon did not answer {command!r} in {self._timeout_s:g}s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        answer = output[:ANSWER_BYTES].decode(errors="replace").strip()
        if process.returncode:
            raise DeviceError(f"the MPS daemon refused {command!r}: {answer[:200] or f'exit {process.returncode}'}")
        return answer


logger = logging.getLogger(__name__)

POLL_S = 3.0
QUIT_S = 10.0
_FAILED = 1
_COMM = b"nvidia-cuda-mps"
"""The daemon's name as the kernel keeps it, cut to 15 bytes."""
CONTROL = "nvidia-cuda-mps-control"


class _StateReport:
    """Writes the daemon's state. A write that fails (a full disk) is logged and must not end the daemon."""

    def __init__(self, folders: MpsFolders) -> None:
        self._folders = folders
        # The folder is on /run, which is empty after a reboot.
        self._state = MpsState(secrets.token_hex(8), started_s=time.time(), is_restart=folders.state.exists())
        self._failure = ""

    def write(self, problem: str) -> None:
        try:
            write_state(self._folders, msgspec.structs.replace(self._state, problem=problem))
        except OSError as error:
            if not self._failure:
                logger.error("the MPS daemon's state cannot be written %s", fields(error=error))
            self._failure = str(error)
        else:
            if self._failure:
                logger.info("the MPS daemon's state can be written again")
            self._failure = ""


async def run_mps_daemon(
    folders: MpsFolders, binary: Path, shutdown: Shutdown, *, proc_root: Path, poll_s: float = POLL_S
) -> int:
    """Run the daemon until the shutdown, or until it ends by itself; returns the exit code.

    Raises:
        DeviceError: another control daemon runs on this machine, or the program cannot be started.
    """
    control = MpsControl(binary, folders)
    other = find_daemon(proc_root)
    make_folders(folders)
    report = _StateReport(folders)
    if other:
        problem = f"another MPS control daemon runs on this machine (process {other}); end it, or do without ours"
        report.write(problem)
        raise DeviceError(problem)
    for left in folders.pipe.iterdir():  # left by an earlier daemon or by pods, which may write here
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    report.write("the MPS daemon is starting")
    try:
        # Pods run under any user: without this the clients of one user wait until those of another have ended.
        process = await asyncio.create_subprocess_exec(
            str(binary), "-f", "-multiuser-server", env=control.environment, stdin=asyncio.subprocess.DEVNULL
        )
    except OSError as error:
        problem = f"{str(binary)!r} cannot be run: {error.strerror}; the container toolkit brings it with compute"
        report.write(problem)
        raise DeviceError(problem) from error
    logger.info("MPS control daemon started %s", fields(dir=folders.root))
    health = asyncio.create_task(_keep_state(control, report, poll_s), name="mps health")
    ended, asked = asyncio.create_task(process.wait()), asyncio.create_task(shutdown.wait())
    await asyncio.wait((ended, asked, health), return_when=asyncio.FIRST_COMPLETED)
    failure = health.exception() if health.done() else None
    health.cancel()
    asked.cancel()
    if process.returncode is None:
        if failure is not None:
            logger.error("health check of the MPS control daemon failed, ending it", exc_info=failure)
        await _quit(control, process)
        report.write("the MPS daemon was ended")
        ended.cancel()
        return 0 if failure is None else _FAILED
    report.write(f"the MPS daemon ended by itself with code {process.returncode}")
    logger.error("MPS control daemon ended %s", fields(code=process.returncode))
    return _FAILED


def make_folders(folders: MpsFolders) -> None:
    """Make the folders: every user's processes use pipes and shared memory, only ours write state and logs.

    Raises:
        OSError: as making folders raises it.
    """
    for folder, mode in ((folders.root, 0o755), (folders.log, 0o755), (folders.pipe, 0o777), (folders.shm, 0o1777)):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)


def find_daemon(proc_root: Path) -> int | None:
    """Return the process id of a control daemon of this machine; needs the host's process ids (hostPID)."""
    for folder in proc_root.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            # Bytes, for a process may call itself anything, UTF-8 or not.
            if (folder / "comm").read_bytes().strip() != _COMM:
                continue
            program, *words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        is_daemon = bool({b"-d", b"-f"} & set(words))
        if is_daemon and Path(os.fsdecode(program)).name == CONTROL:
            return int(folder.name)
    return None


async def _keep_state(control: MpsControl, report: _StateReport, poll_s: float) -> None:
    reported = None
    while True:
        try:
            await control.ask(HEALTH_COMMAND)
            problem = ""
        except DeviceError as error:
            problem = str(error)
        if problem != reported:
            reported = problem
            logger.log(logging.WARNING if problem else logging.INFO, "MPS control daemon %s", problem or "answers")
        report.write(problem)
        await asyncio.sleep(poll_s)


async def _quit(control: MpsControl, process: asyncio.subprocess.Process) -> None:
    """End the daemon and its servers; processes that still use them lose their contexts."""
    try:
        await control.ask("quit")
        async with asyncio.timeout(QUIT_S):
            await process.wait()
    except (DeviceError, TimeoutError) as error:
        logger.warning("MPS control daemon did not quit, killing it %s", fields(error=error))
        if process.returncode is None:
            process.kill()
            await process.wait()
