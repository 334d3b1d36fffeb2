"""A question on a terminal: Ctrl-C answers it at once."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys

_ASKING = """
import asyncio, signal, sys
from gcushare.cli.terminal.screen import is_agreed
from gcushare.runtime.entry import ProcessContext

async def ask():
    before = signal.getsignal(signal.SIGINT)
    try:
        return is_agreed("Go on?", "", sys.stdin, ProcessContext())
    finally:
        print(signal.getsignal(signal.SIGINT) is before)

print(asyncio.run(ask()))
"""


async def test_ctrl_c_ends_a_question_at_once() -> None:
    terminal, stdin = pty.openpty()
    asking = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ASKING, stdin=stdin, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert asking.stderr is not None
        async with asyncio.timeout(60):
            await asking.stderr.readuntil(b"[y/N] ")
            asking.send_signal(signal.SIGINT)
            stdout, stderr = await asking.communicate()
    finally:
        if asking.returncode is None:
            asking.kill()
            await asking.wait()
        os.close(terminal)
        os.close(stdin)
    assert (asking.returncode, stdout) == (-signal.SIGINT, b"True\n")
    assert b"KeyboardInterrupt" in stderr
