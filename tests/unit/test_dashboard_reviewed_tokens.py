"""Who may read the page: what is asked, what is remembered and for how long, and what everybody else is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError
from gcushare.scheduler_extender.dashboard.reviewed_tokens import (
    ALLOWED_S,
    RENEWED_S,
    UNKNOWN_BURST,
    UNKNOWN_PER_S,
    TokenGuard,
)
from gcushare.scheduler_extender.dashboard.token_reviews import Review, ReviewStatus, UserInfo
from tests.manual_clock import ManualClock
from tests.played_api import Asked, PlayedApi


class Desk(PlayedApi):
    """An API server's reviews: users by token, and who of them may read."""

    def __init__(self, users: Mapping[str, str], allowed: frozenset[str]) -> None:
        self.users = dict(users)
        self.allowed = allowed
        self.asked: list[str] = []
        self.failure: GcushareError | None = None
        self.was_asked = asyncio.Event()
        self.answers: asyncio.Event | None = None
        """Where it is set, no review is answered before it."""
        self.access_asked: list[Any] = []
        self.user = UserInfo()
        """What every known user has, but for the name."""

    async def answer(self, asked: Asked) -> object:
        spec = asked.body["spec"]
        return await self._review_token(spec["token"]) if "token" in spec else self._review_access(spec)

    async def _review_token(self, token: str) -> Review:
        self.asked.append(token)
        if self.answers is not None:
            self.was_asked.set()
            await self.answers.wait()
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        name = self.users.get(token)
        user = msgspec.structs.replace(self.user, username=name or "")
        return Review(status=ReviewStatus(authenticated=name is not None, user=user))

    def _review_access(self, asked: Any) -> Review:
        self.access_asked.append(asked)
        return Review(status=ReviewStatus(allowed=asked["user"] in self.allowed))


def asking(token: str | None) -> web.Request:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return make_mocked_request("GET", "/dashboard/api/cluster", headers=headers)


def begin() -> tuple[Desk, ManualClock, TokenGuard]:
    """A guard that no one has asked yet."""
    reviews, clock = Desk({"t-jane": "jane", "t-mallory": "mallory"}, frozenset({"jane"})), ManualClock(100.0)
    return reviews, clock, TokenGuard(reviews.client, clock=clock)


async def jane_is_in() -> tuple[Desk, ManualClock, TokenGuard]:
    """A guard that has let Jane in."""
    reviews, clock, guard = begin()
    await guard.admit(asking("t-jane"))
    return reviews, clock, guard


async def test_a_user_with_the_right_is_let_in_and_asked_about_once() -> None:
    reviews, _, guard = begin()
    await asyncio.gather(*(guard.admit(asking("t-jane")) for _ in range(20)))
    await guard.admit(asking("t-jane"))

    assert reviews.asked == ["t-jane"]


async def test_a_yes_counts_until_it_is_renewed() -> None:
    reviews, clock, guard = await jane_is_in()
    del reviews.users["t-jane"]
    clock.now_s += RENEWED_S - 0.1
    await guard.admit(asking("t-jane"))
    clock.now_s += 0.2

    with pytest.raises(web.HTTPUnauthorized):
        await guard.admit(asking("t-jane"))


async def test_a_yes_that_cannot_be_renewed_counts_for_a_minute_and_no_longer() -> None:
    reviews, clock, guard = await jane_is_in()
    reviews.failure = RetryableError("no answer in time")
    for _ in range(3):
        clock.now_s += (ALLOWED_S - 0.1) / 3
        await guard.admit(asking("t-jane"))
    assert reviews.asked == ["t-jane"] * 2
    clock.now_s += 0.2

    with pytest.raises(RetryableError, match="no answer in time"):
        await guard.admit(asking("t-jane"))


async def test_a_renewal_that_no_one_answers_is_tried_again_in_a_few_seconds() -> None:
    reviews, clock, guard = await jane_is_in()
    reviews.failure = RetryableError("no answer in time")
    clock.now_s += RENEWED_S
    for _ in range(10):
        await guard.admit(asking("t-jane"))
        clock.now_s += 1.0

    assert reviews.asked == ["t-jane"] * 3


async def test_no_one_waits_for_a_renewal_that_another_request_asks_for() -> None:
    reviews, clock, guard = await jane_is_in()
    clock.now_s += RENEWED_S
    reviews.answers = asyncio.Event()
    renewing = asyncio.create_task(guard.admit(asking("t-jane")), name="the request that renews")
    await reviews.was_asked.wait()
    await guard.admit(asking("t-jane"))

    assert not renewing.done()
    reviews.answers.set()
    await renewing
    assert reviews.asked == ["t-jane"] * 2


async def test_a_role_that_was_granted_works_soon() -> None:
    reviews, clock, guard = begin()
    with pytest.raises(ForbiddenError):
        await guard.admit(asking("t-mallory"))
    reviews.allowed = frozenset({"mallory"})
    clock.now_s += 11

    await guard.admit(asking("t-mallory"))


@pytest.mark.parametrize("header", [None, "", "Basic amFuZTpq", "Bearer", "Bearer   ", f"Bearer {'x' * 20_000}"])
async def test_a_request_without_a_token_is_informed_that_one_is_needed_and_no_one_is_asked(header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    reviews, _, guard = begin()

    with pytest.raises(web.HTTPUnauthorized) as caught:
        await guard.admit(make_mocked_request("GET", "/", headers=headers))
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")
    assert reviews.asked == []


async def test_a_token_that_no_one_knows_is_unauthorized_and_one_without_rights_is_forbidden() -> None:
    _, _, guard = begin()

    with pytest.raises(web.HTTPUnauthorized, match="Unauthorized"):
        await guard.admit(asking("made-up"))
    with pytest.raises(ForbiddenError, match=r"'mallory' may not get the non-resource URL /gcushare/dashboard"):
        await guard.admit(asking("t-mallory"))


async def tell(guard: TokenGuard, token: str) -> str:
    """Show a token; returns what came of it in a word."""
    try:
        await guard.admit(asking(token))
    except web.HTTPUnauthorized:
        return "unknown"
    except RetryableError:
        return "later"
    return "in"


async def test_strangers_spend_little_of_the_api_servers_time() -> None:
    reviews, clock, guard = begin()
    reported = [await tell(guard, f"made-up-{number}") for number in range(50)]

    assert reported == ["unknown"] * UNKNOWN_BURST + ["later"] * (50 - UNKNOWN_BURST)
    assert len(reviews.asked) == UNKNOWN_BURST
    clock.now_s += 2 / UNKNOWN_PER_S
    assert await tell(guard, "t-jane") == "in"


async def test_a_reader_stays_in_whatever_strangers_do() -> None:
    _, clock, guard = await jane_is_in()
    reported = []
    for number in range(7):
        for each in range(UNKNOWN_BURST + 2):
            await tell(guard, f"made-up-{number}-{each}")
        reported.append(await tell(guard, "t-jane"))
        clock.now_s += ALLOWED_S / 6

    assert set(reported) == {"in"}


async def test_an_extender_without_the_rights_to_ask_says_which_it_needs() -> None:
    reviews, _, guard = begin()
    reviews.failure = ForbiddenError("tokenreviews is forbidden")

    with pytest.raises(RetryableError, match="system:auth-delegator"):
        await guard.admit(asking("t-jane"))


async def test_an_api_server_that_is_away_is_no_refusal_and_is_asked_again() -> None:
    reviews, _, guard = begin()
    reviews.failure = RetryableError("no answer in time")
    with pytest.raises(RetryableError, match="no answer in time"):
        await guard.admit(asking("t-jane"))
    reviews.failure = None

    await guard.admit(asking("t-jane"))


async def test_the_api_server_is_told_all_that_it_said_of_a_user() -> None:
    reviews, _, guard = begin()
    reviews.user = UserInfo(uid="u1", groups=("dev",), extra={"scopes": ("a",)})
    await guard.admit(asking("t-jane"))

    said = {"user": "jane", "uid": "u1", "groups": ["dev"], "extra": {"scopes": ["a"]}}
    path = {"verb": "get", "path": "/gcushare/dashboard"}
    assert reviews.access_asked == [said | {"nonResourceAttributes": path}]
