"""One Chromium for the tests of a worker, a fresh browser context for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.browser.chromium import HOW_TO, Chromium, find_chromium
from tests.browser.devtools import DevTools
from tests.browser.page_rig import PageRig
from tests.browser.tab import Tab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the browser's tests on two workers, for a browser is slow to start, and out of the quick run."""
    for item in items:
        if "/tests/browser/" in item.path.as_posix():
            half = "content and words" if item.path.name < "test_page_k" else "keys and changes"
            item.add_marker(pytest.mark.xdist_group(f"browser: {half}"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    program = find_chromium()
    if not program:
        pytest.skip(HOW_TO)
    with Chromium(program) as running:
        yield running


@pytest.fixture
async def tools(chromium: Chromium) -> AsyncIterator[DevTools]:
    async with DevTools(chromium.url) as connected:
        yield connected


@pytest.fixture
async def rig() -> AsyncIterator[PageRig]:
    async with PageRig() as running:
        yield running


@pytest.fixture
def tab_may_complain(request: pytest.FixtureRequest) -> bool:
    """Whether the test makes the browser itself complain: it reports every request that fails."""
    return bool(getattr(request, "param", False))


@pytest.fixture
async def tab(tools: DevTools, tab_may_complain: bool) -> AsyncIterator[Tab]:
    """A tab in English and light colours; its page must have had nothing to complain about."""
    opened = await Tab.create(tools)
    await opened.speak("en-US")
    await opened.prefer(prefers_color_scheme="light")
    yield opened
    assert tab_may_complain or opened.complaints == []
    await opened.close()
