"""Who may read the page: what is asked, what is remembered and for how long, and what everybody else is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError
from gcushare.scheduler_extender.dashboard.access import ALLOWED_S, OpenDoor, TokenGuard
from gcushare.scheduler_extender.dashboard.reviews import (
    AccessReview,
    AccessStatus,
    TokenReview,
    TokenStatus,
    UserInfo,
    access_review,
    token_review,
)


class Desk:
    """An API server's reviews: users by token, and who of them may read."""

    def __init__(self, users: Mapping[str, str], allowed: frozenset[str]) -> None:
        self.users = dict(users)
        self.allowed = allowed
        self.asked: list[str] = []
        self.failure: GcushareError | None = None

    async def review_token(self, token: str) -> TokenReview:
        self.asked.append(token)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        name = self.users.get(token)
        return TokenReview(status=TokenStatus(authenticated=name is not None, user=UserInfo(username=name or "")))

    async def review_access(self, user: UserInfo) -> AccessReview:
        return AccessReview(status=AccessStatus(allowed=user.username in self.allowed))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def desk() -> Desk:
    return Desk({"t-jane": "jane", "t-mallory": "mallory"}, frozenset({"jane"}))


def asking(token: str | None) -> web.Request:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return make_mocked_request("GET", "/dashboard/api/cluster", headers=headers)


async def test_whoever_may_is_let_in_and_asked_about_once() -> None:
    reviews, clock = desk(), Clock()
    guard = TokenGuard(reviews, monotonic=clock)
    for _ in range(5):
        await guard.admit(asking("t-jane"))

    assert reviews.asked == ["t-jane"]


async def test_many_requests_at_once_ask_once() -> None:
    reviews = desk()
    guard = TokenGuard(reviews)
    await asyncio.gather(*(guard.admit(asking("t-jane")) for _ in range(20)))

    assert reviews.asked == ["t-jane"]


async def test_a_yes_is_believed_for_a_minute_and_no_longer() -> None:
    reviews, clock = desk(), Clock()
    guard = TokenGuard(reviews, monotonic=clock)
    await guard.admit(asking("t-jane"))
    del reviews.users["t-jane"]
    clock.now += ALLOWED_S - 0.1
    await guard.admit(asking("t-jane"))
    clock.now += 0.2

    with pytest.raises(web.HTTPUnauthorized):
        await guard.admit(asking("t-jane"))


async def test_a_role_that_was_granted_works_soon() -> None:
    reviews, clock = desk(), Clock()
    guard = TokenGuard(reviews, monotonic=clock)
    with pytest.raises(ForbiddenError):
        await guard.admit(asking("t-mallory"))
    reviews.allowed = frozenset({"mallory"})
    clock.now += 11

    await guard.admit(asking("t-mallory"))


@pytest.mark.parametrize("header", [None, "", "Basic amFuZTpq", "Bearer", "Bearer   "])
async def test_a_request_without_a_token_is_told_that_one_is_needed(header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    request = make_mocked_request("GET", "/", headers=headers)

    with pytest.raises(web.HTTPUnauthorized) as caught:
        await TokenGuard(desk()).admit(request)
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_token_that_nobody_knows_is_unauthorized_and_one_without_rights_is_forbidden() -> None:
    guard = TokenGuard(desk())

    with pytest.raises(web.HTTPUnauthorized, match="Unauthorized"):
        await guard.admit(asking("made-up"))
    with pytest.raises(ForbiddenError, match=r"'mallory' may not get the non-resource URL /gcushare/dashboard"):
        await guard.admit(asking("t-mallory"))


async def test_what_is_no_token_asks_nobody() -> None:
    reviews = desk()

    with pytest.raises(web.HTTPUnauthorized):
        await TokenGuard(reviews).admit(asking("x" * 20_000))
    assert reviews.asked == []


async def test_strangers_cannot_spend_the_api_servers_time() -> None:
    reviews, clock = desk(), Clock()
    guard = TokenGuard(reviews, monotonic=clock)
    outcomes = []
    for number in range(50):
        try:
            await guard.admit(asking(f"made-up-{number}"))
        except (web.HTTPUnauthorized, RetryableError) as error:
            outcomes.append(type(error))

    assert outcomes[0] is web.HTTPUnauthorized
    assert outcomes[-1] is RetryableError
    assert len(reviews.asked) == 20
    clock.now += 0.5
    await guard.admit(asking("t-jane"))


async def test_an_extender_without_the_rights_to_ask_says_which_it_needs() -> None:
    reviews = desk()
    reviews.failure = ForbiddenError("tokenreviews is forbidden")

    with pytest.raises(RetryableError, match="system:auth-delegator"):
        await TokenGuard(reviews).admit(asking("t-jane"))


async def test_an_api_server_that_is_away_is_no_refusal_and_is_asked_again() -> None:
    reviews = desk()
    guard = TokenGuard(reviews)
    reviews.failure = RetryableError("no answer in time")
    with pytest.raises(RetryableError, match="no answer in time"):
        await guard.admit(asking("t-jane"))
    reviews.failure = None

    await guard.admit(asking("t-jane"))


async def test_the_open_door_asks_nobody() -> None:
    await OpenDoor().admit(asking(None))


def test_the_reviews_are_asked_as_kubernetes_reads_them() -> None:
    user = UserInfo(username="jane", uid="u1", groups=("dev",), extra={"scopes": ("a",)})

    assert token_review("t")["spec"] == {"token": "t"}
    assert access_review(user, "get", "/x")["spec"] == {
        "user": "jane",
        "uid": "u1",
        "groups": ("dev",),
        "extra": {"scopes": ("a",)},
        "nonResourceAttributes": {"verb": "get", "path": "/x"},
    }
