"""How many tokens may be asked about: by address, by all strangers together, and by those who were readers before."""

from __future__ import annotations

import pytest

from gcushare.scheduler_extender.dashboard.token_reviews import (
    KNOWN_TOKENS,
    PER_PEER,
    UNKNOWN_TOKENS,
    TokenReviewLimit,
    site_of,
)
from tests.manual_clock import ManualClock


def spent_by_strangers(budget: TokenReviewLimit, *addresses: str | None) -> int:
    return sum(budget.take_for_unknown(address) for address in addresses)


@pytest.mark.parametrize(
    ("address", "site"),
    [
        pytest.param("10.1.2.3", "10.1.2.3", id="IPv4"),
        pytest.param("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", id="IPv6"),
        pytest.param("::ffff:10.1.2.3", "10.1.2.3", id="IPv4 on an IPv6 socket"),
        pytest.param("fe80::1%eth0", "fe80::/64", id="link-local"),
        pytest.param("/run/page.sock", "/run/page.sock", id="no address"),
        pytest.param(None, "", id="no one knows"),
    ],
)
def test_an_address_is_counted_as_the_site_behind_it(address: str | None, site: str) -> None:
    assert site_of(address) == site


def test_one_site_has_one_budget_however_many_addresses_it_uses() -> None:
    budget = TokenReviewLimit(ManualClock())

    assert spent_by_strangers(budget, *(f"2001:db8::{number:x}" for number in range(40))) == PER_PEER.burst


def test_a_caller_over_its_own_budget_spends_nothing_of_the_shared_one() -> None:
    budget = TokenReviewLimit(ManualClock())
    spent_by_strangers(budget, *["10.0.0.1"] * 100)

    left = UNKNOWN_TOKENS.burst - PER_PEER.burst
    assert spent_by_strangers(budget, *(f"10.0.1.{number}" for number in range(100))) == left


def test_budgets_refill_with_time_up_to_their_burst() -> None:
    clock = ManualClock()
    budget = TokenReviewLimit(clock)
    spent_by_strangers(budget, *["10.0.0.1"] * 100)

    clock.advance(1)
    assert spent_by_strangers(budget, *["10.0.0.1"] * 100) == PER_PEER.per_s
    clock.advance(3600)
    assert spent_by_strangers(budget, *["10.0.0.1"] * 100) == PER_PEER.burst


def test_readers_have_a_share_that_strangers_cannot_use() -> None:
    budget = TokenReviewLimit(ManualClock())
    spent_by_strangers(budget, *(f"10.0.0.{number}" for number in range(100)))

    assert sum(budget.take_for_known() for _ in range(100)) == KNOWN_TOKENS.burst


def test_all_together_are_bounded_for_every_caller() -> None:
    clock = ManualClock()
    budget = TokenReviewLimit(clock)
    spent = 0
    for tick in range(100):
        clock.advance(0.1)
        spent += sum(budget.take_for_known() for _ in range(50))
        spent += spent_by_strangers(budget, *(f"10.0.{tick}.{number}" for number in range(50)))

    assert spent <= sum(rate.burst + rate.per_s * 10 for rate in (KNOWN_TOKENS, UNKNOWN_TOKENS))


@pytest.mark.parametrize(("others", "is_forgotten"), [(4000, False), (5000, True)])
def test_the_address_idle_longest_is_forgotten_before_addresses_fill_the_memory(
    others: int, *, is_forgotten: bool
) -> None:
    clock = ManualClock()
    budget = TokenReviewLimit(clock)
    spent_by_strangers(budget, *["10.0.0.0"] * 20)
    for number in range(others):
        budget.take_for_unknown(f"10.1.{number // 256}.{number % 256}")
    clock.advance(0.2)

    # Its own allowance refills to 0.4 of a token by then. Once forgotten, it starts again with the whole burst.
    assert budget.take_for_unknown("10.0.0.0") is is_forgotten


def test_one_stranger_has_at_most_half_of_what_all_have() -> None:
    assert PER_PEER.per_s * 2 <= UNKNOWN_TOKENS.per_s
    assert PER_PEER.burst * 2 <= UNKNOWN_TOKENS.burst
