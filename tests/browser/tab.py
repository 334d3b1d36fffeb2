"""A tab as a person uses it: it goes somewhere, clicks, presses keys, reads, and remembers every complaint."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from tests.browser.devtools import DevTools, DevToolsError, Message

DEADLINE_S = 60.0
_POLL_S = 0.02

_KEYS: dict[str, tuple[str, int]] = {
    "Enter": ("\r", 13),
    "Escape": ("", 27),
    "Tab": ("", 9),
    "ArrowLeft": ("", 37),
    "ArrowUp": ("", 38),
    "ArrowRight": ("", 39),
    "ArrowDown": ("", 40),
    "Home": ("", 36),
    "End": ("", 35),
    "PageDown": ("", 34),
    " ": (" ", 32),
}
# The text of a hidden element is no text of the page, but innerText has it.
_SEEN = "((found) => found && (found.checkVisibility() ? found.innerText : ''))(document.querySelector($0))"


class Tab:
    """One page in a browser context of its own: no storage and no cache is shared with other tabs."""

    def __init__(self, tools: DevTools, session: str, context: str) -> None:
        self._tools = tools
        self._session = session
        self._context = context
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions no one caught, requests that failed or were blocked."""
        self.responses: list[Message] = []
        self.requests: list[str] = []
        self._loaded = asyncio.Event()
        tools.listen(session, self._hear)

    @classmethod
    async def create(cls, tools: DevTools, width: int = 1440, height: int = 900) -> Tab:
        context = (await tools.send("Target.createBrowserContext"))["browserContextId"]
        target = await tools.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await tools.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = cls(tools, attached["sessionId"], context)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.send(f"{domain}.enable")
        await tab.resize(width, height)
        return tab

    async def close(self) -> None:
        """Close the tab and forget its context."""
        await self._tools.send("Target.disposeBrowserContext", browserContextId=self._context)

    async def send(self, method: str, **params: Any) -> Message:
        return await self._tools.send(method, self._session, **params)

    def _hear(self, method: str, params: Message) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                words = " ".join(str(each.get("value", each.get("description"))) for each in params["args"])
                self.complaints.append(words)
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.responseReceived":
                self.responses.append(params["response"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Page.loadEventFired":
                self._loaded.set()

    async def goto(self, url: str) -> None:
        """Load a page and wait for its load event."""
        self._loaded.clear()
        await self.send("Page.navigate", url=url)
        async with asyncio.timeout(DEADLINE_S):
            await self._loaded.wait()

    async def show(self, url: str) -> None:
        """Load the page and wait until it has drawn the cluster."""
        await self.goto(url)
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

    async def reload(self) -> None:
        self._loaded.clear()
        await self.send("Page.reload")
        async with asyncio.timeout(DEADLINE_S):
            await self._loaded.wait()

    async def resize(self, width: int, height: int, *, scale: float = 1.0, mobile: bool = False) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    async def prefer(self, **features: str) -> None:
        """Set media features: ``prefers_color_scheme="dark"``."""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        await self.send("Emulation.setEmulatedMedia", features=listed)

    async def speak(self, locale: str) -> None:
        """Prefer a language, as the browser's settings would."""
        agent = await self.evaluate("navigator.userAgent")
        await self.send("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=locale)

    async def evaluate(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its value, awaited; ``arguments`` are ``$0``, ``$1``, ….

        Raises:
            DevToolsError: it threw.
        """
        for number, argument in enumerate(arguments):
            script = script.replace(f"${number}", json.dumps(argument))
        got = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            details = got["exceptionDetails"]
            raise DevToolsError(details.get("exception", {}).get("description") or details["text"])
        return got["result"].get("value")

    async def until(self, script: str, *arguments: object, deadline_s: float = DEADLINE_S) -> Any:
        """Wait until a script's value is true; returns it.

        Raises:
            AssertionError: not by the deadline; with what the page said and what it complained about.
        """
        value = None
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

    async def middle_of(self, selector: str) -> tuple[float, float]:
        """Where a person would click an element; it must be in sight and on top."""
        script = """(() => {
          const found = document.querySelector($0);
          if (!found) return null;
          found.scrollIntoView({block: "nearest"});
          const box = found.getBoundingClientRect();
          const x = box.x + box.width / 2, y = box.y + box.height / 2;
          const top = document.elementFromPoint(x, y);
          return {x, y, hit: found.contains(top) || top?.contains(found) || false};
        })()"""
        # A press goes to what the last frame showed there.
        await self.settle()
        place = await self.evaluate(script, selector)
        assert place is not None, f"the page has no {selector}"
        assert place["hit"], f"{selector} is covered by something else"
        return place["x"], place["y"]

    async def click(self, selector: str) -> None:
        """Click an element's middle with a mouse."""
        await self.click_at(*await self.middle_of(selector))

    async def click_at(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.mouse(kind, x, y)

    async def mouse(self, kind: str, x: float, y: float) -> None:
        """Press or release the left button: ``mousePressed``, ``mouseReleased``."""
        await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def move_to(self, x: float, y: float) -> None:
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def press(self, key: str) -> None:
        """Press and release a key."""
        text, code = _KEYS.get(key, (key, ord(key.upper()[0])))
        common = {"key": key, "windowsVirtualKeyCode": code}
        await self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def focused(self) -> str:
        """The id of what has the focus; its tag where it has none."""
        return str(await self.evaluate("document.activeElement.id || document.activeElement.tagName"))

    async def screenshot(self, path: Path) -> None:
        got = await self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(got["data"]))
