"""When certificates end, as their DER says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.wire.certificates import first_end
from tests.timing import assert_no_square
from tests.unit.certificates import certificate_pem

IN_PEM = b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(datetime(2030, 2, 3, 4, 5, 6, tzinfo=UTC), id="UTCTime"),
        pytest.param(datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), id="the last UTCTime"),
        pytest.param(datetime(2050, 1, 1, tzinfo=UTC), id="the first GeneralizedTime"),
    ],
)
def test_the_end_of_a_certificate_is_read_to_the_second(end: datetime) -> None:
    assert first_end(certificate_pem(end=end)) == end


def test_a_chain_ends_with_its_first_link() -> None:
    sooner, later = datetime(2030, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    chain = certificate_pem(end=later, name="x" * 60) + b"text between\n" + certificate_pem(end=sooner)
    assert first_end(chain) == sooner


@pytest.mark.parametrize(
    ("pem", "words"),
    [
        pytest.param(b"", "no PEM certificate", id="empty"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----", "no PEM certificate", id="a key"),
        pytest.param(IN_PEM % b"!!", "no PEM certificate", id="no base64"),
        pytest.param(IN_PEM % b"A===", "not X.509", id="a wrong length"),
        pytest.param(IN_PEM % b"MAA=", "not X.509", id="an empty sequence"),
        pytest.param(IN_PEM % b"AgEB", "not X.509", id="a number"),
    ],
)
def test_what_is_no_certificate_is_refused(pem: bytes, words: str) -> None:
    with pytest.raises(RemoteContractError, match=words):
        first_end(pem)


def test_every_cut_of_a_certificate_is_refused() -> None:
    whole = certificate_pem(days=10)
    head, body, tail = whole.partition(b"\n")[0], b"".join(whole.splitlines()[1:-1]), whole.splitlines()[-1]
    for length in range(0, 120, 4):
        with pytest.raises(RemoteContractError):
            first_end(b"\n".join((head, body[:length], tail)))


@pytest.mark.parametrize("part", [b" ", b"-----BEGIN CERTIFICATE-----"])
def test_a_long_file_without_an_end_takes_no_more_time_than_its_length(part: bytes) -> None:
    def read(count: int) -> None:
        with pytest.raises(RemoteContractError, match="no PEM certificate"):
            first_end(b"-----BEGIN CERTIFICATE-----" + part * count)

    assert_no_square(read, 200)
