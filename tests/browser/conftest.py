"""One Chromium for the tests of a worker, a fresh browser context for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.page_rig import PageRig
from tests.browser.tab import HOW_TO, Tab, find_chromium, run_chromium


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the browser's tests on two workers, for a browser is slow to start, and out of the quick run."""
    for item in items:
        if "/tests/browser/" in item.path.as_posix():
            half = "content and words" if item.path.name < "test_page_k" else "keys and changes"
            item.add_marker(pytest.mark.xdist_group(f"browser: {half}"))
            item.add_marker(pytest.mark.slow)
            # The browser is spoken to from the event loop in which it was started.
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    program = find_chromium()
    if not program:
        pytest.skip(HOW_TO)
    async with run_chromium(program) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def rig() -> AsyncIterator[PageRig]:
    async with PageRig() as running:
        yield running


@pytest.fixture
def tab_may_complain(request: pytest.FixtureRequest) -> bool:
    """Whether the test makes the browser itself complain: it reports every request that fails."""
    return bool(getattr(request, "param", False))


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, tab_may_complain: bool) -> AsyncIterator[Tab]:
    """A tab whose page must have had nothing to complain about."""
    opened = await Tab.create(browser)
    yield opened
    assert tab_may_complain or opened.complaints == []
    await opened.close()
