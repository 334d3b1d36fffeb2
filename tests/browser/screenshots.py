"""``make screenshots``: the pictures of docs/admin-guide.md, of a cluster that is the same on every machine.

    python -m tests.browser.screenshots [DIRECTORY]

The fonts are the machine's own; run it where Noto or WenQuanYi is installed, for the Chinese picture.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from playwright.async_api import Browser

from tests.browser.page_rig import PageRig
from tests.browser.pictures import Shape, make_cluster, waiting_pods
from tests.browser.tab import HOW_TO, Tab, Theme, find_chromium, run_chromium

DIRECTORY = Path(__file__).parents[2] / "docs/images"
MAX_BYTES = 250_000
"""What a picture in the repository may weigh."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: which cluster, which place of the page, and how it is looked at."""

    name: str
    shape: Shape
    address: str = ""
    theme: Theme = "light"
    language: str = "en-US"
    width: int = 1440
    height: int = 900


SMALL = Shape(nodes=3, fill=0.6, seed=11)
MEDIUM = Shape(nodes=36)
PICTURES = (
    Picture("dashboard", SMALL, width=1280, height=800),
    Picture("dashboard-pod-waits", MEDIUM, "pod=enflame/nlp-training/llm-70b-0", theme="dark"),
    Picture("dashboard-zh", SMALL, language="zh-CN", width=1280, height=800),
    Picture("dashboard-1000-nodes", Shape(nodes=1000), "size=8", theme="dark", width=1360, height=720),
    Picture("dashboard-phone", SMALL, width=390, height=844),
)


async def take(browser: Browser, picture: Picture, path: Path) -> None:
    """Take one picture.

    Raises:
        RuntimeError: the page complained, or the picture is too heavy.
    """
    async with PageRig() as rig:
        rig.see(*make_cluster(picture.shape), *waiting_pods(datetime.now(UTC)))
        tab = await Tab.create(browser)
        await tab.resize(picture.width, picture.height, mobile=picture.width < 600)
        await tab.speak(picture.language)
        await tab.page.emulate_media(color_scheme=picture.theme, reduced_motion="reduce")
        await tab.show(f"{rig.url}#{picture.address}")
        await tab.until("document.querySelector('#state').dataset.state === 'live'")
        if picture.address.startswith("pod="):
            await tab.until("document.querySelector('.why ol') !== null")
        await tab.evaluate("document.activeElement.blur()")
        await tab.page.screenshot(path=path)
        complaints = tab.complaints
        await tab.close()
    if complaints:
        raise RuntimeError(f"{picture.name}: the page complained: {complaints}")
    if path.stat().st_size > MAX_BYTES:
        raise RuntimeError(f"{path} has {path.stat().st_size} bytes, more than {MAX_BYTES}")


async def take_all(program: str, directory: Path) -> None:
    """Take every picture into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    async with run_chromium(program) as browser:
        for picture in PICTURES:
            await take(browser, picture, directory / f"{picture.name}.png")


def main() -> int:
    """Take the pictures; 1 where there is no Chromium."""
    program = find_chromium()
    if not program:
        sys.stderr.write(f"{HOW_TO}\n")
        return 1
    asyncio.run(take_all(program, Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY))
    return 0


if __name__ == "__main__":
    sys.exit(main())
