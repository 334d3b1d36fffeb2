"""A tab as a person uses it: it goes somewhere, clicks, presses keys, reads, and remembers every complaint."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

from playwright.async_api import Browser, CDPSession, ConsoleMessage, Page, Response, async_playwright

Theme: TypeAlias = Literal["light", "dark"]
DEADLINE_S = 60.0
_POLL_S = 0.02
# The text of a hidden element is no text of the page, but innerText has it.
_SEEN = "((found) => found && (found.checkVisibility() ? found.innerText : ''))(document.querySelector($0))"


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


class Tab:
    """One page in a browser context of its own: no storage and no cache is shared with other tabs."""

    def __init__(self, page: Page, devtools: CDPSession) -> None:
        self.page = page
        self.devtools = devtools
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions no one caught, requests that failed or were blocked."""
        self.responses: list[Response] = []
        page.on("response", self._keep)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @classmethod
    async def create(cls, browser: Browser, width: int = 1440, height: int = 900) -> Tab:
        """Open a tab in English and light colours."""
        context = await browser.new_context(no_viewport=True)
        page = await context.new_page()
        tab = cls(page, await context.new_cdp_session(page))
        await tab.resize(width, height)
        await tab.speak("en-US")
        return tab

    def _keep(self, response: Response) -> None:
        self.responses.append(response)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"{message.text} {message.location['url']}")

    async def close(self) -> None:
        """Close the tab and forget its context."""
        await self.page.context.close()

    async def show(self, url: str) -> None:
        """Load the page and wait until it has drawn the cluster."""
        await self.page.goto(url)
        await self.until_drawn()

    async def open(self, address: str) -> None:
        """Go to a place of the page that is shown, as a link would, and wait until it is drawn."""
        drawn = await self.evaluate("document.body.dataset.drawn")
        if await self.evaluate("location.hash.slice(1) !== $0 && ((location.hash = $0), true)", address):
            await self.until("document.body.dataset.drawn !== $0", drawn)

    async def until_drawn(self) -> None:
        await self.until("document.body.dataset.drawn > 0 && document.querySelector('#canvas').dataset.frames > 0")
        await self.settle()

    async def settle(self) -> None:
        """Wait for two frames: what was laid out again is in its place."""
        await self.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(0))))")

    async def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        await self.devtools.send("Emulation.setDeviceMetricsOverride", metrics)

    async def speak(self, locale: str) -> None:
        """Prefer a language, as the browser's settings would."""
        agent = {"userAgent": await self.evaluate("navigator.userAgent"), "acceptLanguage": locale}
        await self.devtools.send("Emulation.setUserAgentOverride", agent)

    async def evaluate(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its value, awaited; ``arguments`` are ``$0``, ``$1``, ….

        Raises:
            playwright.async_api.Error: it threw.
        """
        for number, argument in enumerate(arguments):
            script = script.replace(f"${number}", json.dumps(argument))
        return await self.page.evaluate(script)

    async def until(self, script: str, *arguments: object, deadline_s: float = DEADLINE_S) -> Any:
        """Wait until a script's value is true; returns it.

        Raises:
            AssertionError: not by the deadline; with what the page said and what it complained about.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while not (value := await self.evaluate(script, *arguments)):  # noqa: ASYNC110 - it is another program
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            seen = await self.evaluate("document.body.innerText.slice(0, 600)")
            raise AssertionError(
                f"never true: {script} {arguments}; complaints {self.complaints}; page: {seen}"
            ) from None
        return value

    async def text(self, selector: str) -> str:
        """What a reader sees of an element, nothing of a hidden one; it must be there."""
        found = await self.evaluate(f"{_SEEN} ?? null", selector)
        assert found is not None, f"the page has no {selector}"
        return str(found)

    async def until_text(self, selector: str, part: str) -> str:
        """Wait until an element shows a text; returns all of it."""
        await self.until(f"{_SEEN}?.includes($1)", selector, part)
        return await self.text(selector)

    async def click(self, selector: str) -> None:
        """Click the middle of the first such element, once it is in sight and on top."""
        await self.page.locator(selector).first.click()

    async def press(self, key: str) -> None:
        """Press and release a key."""
        await self.page.keyboard.press(key)

    async def focused(self) -> str:
        """The id of what has the focus; its tag where it has none."""
        return str(await self.evaluate("document.activeElement.id || document.activeElement.tagName"))
