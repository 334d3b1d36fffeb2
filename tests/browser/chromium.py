"""The Chromium of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO = "no Chromium: install one (apt-get install chromium) or name it in $CHROMIUM"


def find_chromium() -> str:
    """Find a Chromium: $CHROMIUM, or one of the usual names on PATH; empty when there is none."""
    given = os.environ.get("CHROMIUM", "")
    return given or next((found for name in NAMES if (found := shutil.which(name))), "")


@asynccontextmanager
async def run_chromium(program: str) -> AsyncIterator[Browser]:
    """Run a Chromium that has nothing of this machine's settings."""
    flags = ("--disable-gpu", "--disable-quic", "--no-proxy-server")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        await browser.close()
