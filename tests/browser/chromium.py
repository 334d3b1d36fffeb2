"""One Chromium process, found on this machine and ended by its pid."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO = "no Chromium: install one (apt-get install chromium) or name it in $CHROMIUM"
_START_S = 30.0
_END_S = 10.0
_LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--mute-audio",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-address=127.0.0.1",
    "--remote-debugging-port=0",
)


def find_chromium() -> str:
    """Find a Chromium: $CHROMIUM, or one of the usual names on PATH; empty when there is none."""
    given = os.environ.get("CHROMIUM", "")
    return given or next((found for name in NAMES if (found := shutil.which(name))), "")


class Chromium:
    """A running browser; ``url`` is where its DevTools protocol answers.

    Raises:
        RuntimeError: it ended, or said nothing of its address, within the deadline; with its last words.
    """

    def __init__(self, program: str) -> None:
        self._program = program
        self._profile = Path(tempfile.mkdtemp(prefix="gcushare-chromium-"))
        self._said: list[bytes] = []
        self._has_url = threading.Event()
        self.url = ""

    def __enter__(self) -> Self:
        command = [self._program, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        # A session of its own: its children end with it, and Ctrl-C on the tests is ours to handle.
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, name="chromium's words", daemon=True)
        self._reader.start()
        if not self._has_url.wait(_START_S) or not self.url:
            self._end()
            raise RuntimeError(f"{self._program} did not start: {b''.join(self._said[-20:]).decode(errors='replace')}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if (found := _LISTENING.search(line)) is not None:
                self.url = found[1].decode()
                self._has_url.set()
        self._has_url.set()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self._reader.join(_END_S)
        if self._process.stderr is not None:
            self._process.stderr.close()
        shutil.rmtree(self._profile, ignore_errors=True)
