"""Clocks that are wrong and Secrets that are lost, as the keepers of certificates meet them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from cryptography import x509

from gcushare.scheduler_extender.mutual_tls.issuing import CLOCK_TOLERANCE, next_issue
from gcushare.wire.contracts import CLIENT_CERT
from tests.unit.test_verbs_issuing import DAY, START, YEAR, Data, check_handshake, first, renewed

HOUR = timedelta(hours=1)


def count_changes(data: Data, moments: Iterable[datetime]) -> tuple[int, Data]:
    """Let keepers check one after the other; returns how often one wrote, and what the Secret holds then."""
    changes = 0
    for now in moments:
        issue = next_issue(data, YEAR, now)
        if issue is not None:
            changes, data = changes + 1, issue.data
    return changes, data


# Years of certificates.
@pytest.mark.slow
@pytest.mark.parametrize("apart", [CLOCK_TOLERANCE, -CLOCK_TOLERANCE])
def test_replicas_whose_clocks_are_an_hour_apart_write_no_more_often_than_one_alone(apart: timedelta) -> None:
    days = [START + number * DAY for number in range(0, 8 * 365, 3)]
    alone, _ = count_changes({}, days)
    data: Data = {}
    together = 0
    for now in days:
        wrote, data = count_changes(data, (now + apart, now, now + apart, now))
        together += wrote
        check_handshake(data, data, now)
        check_handshake(data, data, now + apart)
    assert together == alone


@pytest.mark.parametrize("ahead", [2 * HOUR, 100 * DAY, 300 * DAY, 20 * 365 * DAY], ids=str)
@pytest.mark.parametrize("had_a_set", [True, False])
def test_what_a_replica_with_a_wrong_clock_wrote_is_replaced_by_the_next_one(
    ahead: timedelta, *, had_a_set: bool
) -> None:
    """Without that, every call would be refused until the wrong time has come, years later."""
    wrong = renewed(first() if had_a_set else {}, START + ahead)
    data = renewed(wrong, START + HOUR / 2)
    for _ in range(3):
        data = renewed(data, START + HOUR / 2)
    check_handshake(data, data, START + HOUR / 2)
    assert next_issue(data, YEAR, START + HOUR) is None


def test_replicas_whose_clocks_differ_by_less_than_a_renewal_settle_on_one_set() -> None:
    moments = [START + (100 * DAY if number % 2 else timedelta()) for number in range(50)]
    changes, data = count_changes({}, reversed(moments))
    assert changes == 2, "the wrong one, then the right one for good"
    check_handshake(data, data, START)


@pytest.mark.slow
def test_a_scheduler_that_is_down_over_any_renewal_is_served_with_what_it_has() -> None:
    """It shows the certificate, and trusts the authorities, of before it went down, until that certificate ends."""
    months = [first()]
    for month in range(1, 12 * 14):
        months.append(renewed(months[-1], START + month * 30 * DAY))
    served = 0
    for down, data in enumerate(months[:-12]):
        ends = x509.load_pem_x509_certificate(data[CLIENT_CERT]).not_valid_after_utc
        for back in range(down, down + 12):
            if (now := START + back * 30 * DAY) < ends:
                check_handshake(months[back], data, now)
                served += months[back][CLIENT_CERT] != data[CLIENT_CERT]
    assert served > 20, "there were renewals meanwhile"
