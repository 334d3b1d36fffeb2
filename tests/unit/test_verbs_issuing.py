"""Certificates of the scheduler's calls: made, renewed, and never half replaced wherever a keeper is cut off."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from gcushare.core.errors import ConflictError, RetryableError
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
from gcushare.scheduler_extender.mutual_tls.issuing import CLOCK_TOLERANCE, Terms, next_issue
from gcushare.wire.contracts import CA, CA_KEY, CLIENT_CERT, CLIENT_KEY, SCHEDULER_NAME, SERVER_CERT, SERVER_KEY
from tests.builders import present
from tests.played_api import Asked, PlayedApi
from tests.unit.cut_off import CutOff, Ended

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = Terms(("extender.kube-system.svc", "extender"), 365 * DAY)

Data = Mapping[str, bytes]


def first(now: datetime = START, terms: Terms = YEAR) -> Data:
    return present(next_issue({}, terms, now)).data


def renewed(data: Data, now: datetime, terms: Terms = YEAR) -> Data:
    issue = next_issue(data, terms, now)
    return data if issue is None else issue.data


def certificate(data: Data, key: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(data[key])


def policy(trusted: Data, now: datetime) -> PolicyBuilder:
    return PolicyBuilder().store(Store(x509.load_pem_x509_certificates(trusted[CA]))).time(now)


def check_handshake(server_side: Data, client_side: Data, now: datetime) -> None:
    """Verify both certificates as the two sides do, each by the authorities that it read."""
    server = policy(client_side, now).build_server_verifier(x509.DNSName(YEAR.server_names[0]))
    server.verify(certificate(server_side, SERVER_CERT), [])
    policy(server_side, now).build_client_verifier().verify(certificate(client_side, CLIENT_CERT), [])


def test_each_certificate_is_for_its_own_side_and_name() -> None:
    data = first()
    for key, purpose, names in (
        (SERVER_CERT, ExtendedKeyUsageOID.SERVER_AUTH, list(YEAR.server_names)),
        (CLIENT_CERT, ExtendedKeyUsageOID.CLIENT_AUTH, [SCHEDULER_NAME]),
    ):
        extensions = certificate(data, key).extensions
        assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
        alternative = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert alternative.get_values_for_type(x509.DNSName) == names
        assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize(("days", "due"), [(240, False), (245, True), (400, True)])
def test_certificates_are_made_again_after_two_thirds_of_their_life(days: int, due: bool) -> None:
    assert (next_issue(first(), YEAR, START + days * DAY) is not None) is due


def test_a_second_scheduler_that_read_its_authorities_at_its_start_need_not_start_again_for_four_lives() -> None:
    """Its certificate is read again at every handshake, its authorities never."""
    months = [first()]
    for month in range(1, 12 * 14):
        months.append(renewed(months[-1], START + month * 30 * DAY))
    for start in range(0, 12 * 10, 3):
        started = months[start]
        for month in (start + 47, start):
            shown = months[month]
            check_handshake(shown, {**started, CLIENT_CERT: shown[CLIENT_CERT]}, START + month * 30 * DAY)


def test_a_server_that_is_called_otherwise_gets_a_new_certificate_and_the_scheduler_keeps_its_own() -> None:
    data = first()
    moved = Terms(("extender.other.svc",), YEAR.life)
    issue = present(next_issue(data, moved, START + DAY))
    assert issue.data[CLIENT_CERT] == data[CLIENT_CERT]
    verifier = policy(data, START + DAY).build_server_verifier(x509.DNSName("extender.other.svc"))
    verifier.verify(certificate(issue.data, SERVER_CERT), [])
    assert next_issue(issue.data, moved, START + DAY) is None


@pytest.mark.parametrize("key", [CA, CA_KEY, SERVER_CERT, SERVER_KEY, CLIENT_CERT, CLIENT_KEY])
@pytest.mark.parametrize("how", ["gone", "empty", "cut", "another's", "binary"])
def test_a_set_that_is_broken_or_does_not_fit_together_is_replaced(key: str, how: str) -> None:
    data, other = dict(first()), first()
    broken = {"empty": b"", "cut": data[key][:100], "another's": other[key], "binary": b"\xff\x00" * 50}
    data[key] = broken.get(how, b"")
    if how == "gone":
        del data[key]
    issue = present(next_issue(data, YEAR, START + DAY))
    check_handshake(issue.data, issue.data, START + DAY)
    assert next_issue(issue.data, YEAR, START + DAY) is None


def test_a_server_certificate_without_any_name_is_made_again() -> None:
    """As one that an admin signs with the authority's key may be."""
    data = dict(first())
    authority, old = certificate(data, CA), certificate(data, SERVER_CERT)
    key = load_pem_private_key(data[CA_KEY], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    nameless = (
        x509.CertificateBuilder(authority.subject, old.subject, old.public_key(), 7, START, START + 365 * DAY)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    again = present(next_issue({**data, SERVER_CERT: nameless}, YEAR, START + DAY))
    assert again.reason == "the server is now called extender.kube-system.svc, extender"
    check_handshake(again.data, again.data, START + DAY)


def test_an_authority_is_renewed_with_its_key_and_name_when_two_thirds_of_its_life_are_over() -> None:
    held = first()
    for year in range(1, 10):
        held = renewed(held, START + year * 365 * DAY)
        assert certificate(held, CA).not_valid_after_utc == START + 15 * 365 * DAY, "the first one"
    after = present(next_issue(held, YEAR, START + 10 * 365 * DAY))
    assert after.reason == "the authority is past two thirds of its life"
    assert certificate(after.data, CA).subject == certificate(held, CA).subject
    assert certificate(after.data, CA).not_valid_after_utc == START + 25 * 365 * DAY
    for now in (START + 10 * 365 * DAY, START + 11 * 365 * DAY - DAY):
        check_handshake({**after.data, CA: held[CA]}, after.data, now)
        check_handshake(after.data, {**after.data, CA: held[CA]}, now)


HOUR = timedelta(hours=1)


def count_changes(data: Data, moments: Iterable[datetime]) -> tuple[int, Data]:
    """Let keepers check one after the other; returns how often one wrote, and what the Secret holds then."""
    changes = 0
    for now in moments:
        issue = next_issue(data, YEAR, now)
        if issue is not None:
            changes, data = changes + 1, issue.data
    return changes, data


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


STEP = YEAR.life / 3
STEPS = 3 * 11
"""Eleven lives of a certificate: the authority is renewed after ten of them."""


@dataclass
class Calendar:
    """The keepers' clock: the test says what it shows; it never sleeps."""

    shows: datetime = START

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return self.shows

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("a single look waits for nothing")


@dataclass
class OneSecret(PlayedApi):
    """The Secret, at first empty, as the API server keeps it: a write must name its version."""

    cut_off: CutOff
    data: dict[str, str] = field(default_factory=dict)
    version: int = 1
    shown: list[Data] = field(default_factory=list)
    """What its server's side was, in turn."""

    @property
    def decoded(self) -> Data:
        return {key: base64.b64decode(text) for key, text in self.data.items()}

    async def answer(self, asked: Asked) -> dict[str, Any]:
        if asked.verb == "patch":
            with self.cut_off.write():
                if asked.body["metadata"]["resourceVersion"] != str(self.version):
                    raise ConflictError("written meanwhile")
                self.data |= asked.body["data"]
                self.version += 1
                self.shown.append(server_side(self.decoded))
        return {"metadata": {"resourceVersion": str(self.version)}, "data": self.data}


@dataclass
class Replica:
    """An extender: its keeper starts over where it ended, in a folder of its own; ``served`` is what it serves with."""

    secret: OneSecret
    calendar: Calendar
    home: Path
    starts: int = 0
    keeper: CertificateKeeper = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.starts += 1
        folder = self.home / str(self.starts)
        folder.mkdir(parents=True)
        self.keeper = CertificateKeeper(self.secret.client, ObjectName("s", "v"), YEAR, folder, clock=self.calendar)

    async def look(self) -> bool:
        """Look once; where that was cut off, start over. False where it has to look again."""
        try:
            return await self.keeper.check()
        except Ended:
            self.start()
            return False

    @property
    def served(self) -> Data | None:
        files = self.keeper.files
        if not self.keeper.ready.is_set():
            return None
        assert files.client_ca is not None
        return {CA: files.client_ca.read_bytes(), SERVER_CERT: files.cert.read_bytes()}


def server_side(data: Data) -> Data:
    return {key: data[key] for key in (CA, SERVER_CERT)}


def lives(data: Data) -> list[tuple[datetime, datetime]]:
    """From when until when each certificate of a set holds: all of it that is no chance."""
    found = [each for key in (CA, SERVER_CERT, CLIENT_CERT) for each in x509.load_pem_x509_certificates(data[key])]
    return [(each.not_valid_before_utc, each.not_valid_after_utc) for each in found]


def check_everybody(replicas: Iterable[Replica], secret: OneSecret, copied: Data, now: datetime) -> None:
    """Let every replica that serves and a scheduler that is behind, or half behind, verify each other."""
    sets = (secret.decoded, copied) if secret.decoded != copied else (copied,)
    clients = [{CA: ca[CA], CLIENT_CERT: cert[CLIENT_CERT]} for ca in sets if ca for cert in sets if cert]
    for replica in replicas:
        if (served := replica.served) is not None:
            assert served in secret.shown, "nothing is in use that the Secret never held"
            for client in clients:
                check_handshake(served, client, now)


async def keep(home: Path, *cut_offs: CutOff) -> list[list[tuple[datetime, datetime]]]:
    """Keep certificates for eleven lives, with these mishaps in turn whenever something is to be written.

    Returns what the Secret held after each step.
    """
    calendar, secret = Calendar(), OneSecret(CutOff())
    replicas = [Replica(secret, calendar, home / name) for name in ("a", "b")]
    copied: Data = {}
    kept = []
    for number in range(STEPS):
        calendar.shows = START + number * STEP
        first, second = replicas[number % 2], replicas[1 - number % 2]
        for cut_off in cut_offs:
            secret.cut_off = replace(cut_off)
            if not await first.look():
                check_everybody(replicas, secret, copied, calendar.shows)
        secret.cut_off = CutOff()
        assert await first.look(), "it ends what was begun"
        check_everybody(replicas, secret, copied, calendar.shows)
        assert await second.look()
        assert first.served == second.served == server_side(secret.decoded)
        copied = secret.decoded
        kept.append(lives(copied))
    return kept


async def test_files_that_cannot_be_written_are_tried_again(tmp_path: Path) -> None:
    calendar, secret = Calendar(), OneSecret(CutOff())
    replica = Replica(secret, calendar, tmp_path)
    assert await replica.look()
    before = replica.served
    calendar.shows = START + 2 * STEP
    in_the_way = tmp_path / "1" / f"{SERVER_CERT}.part"
    in_the_way.mkdir()
    assert not await replica.look()
    assert replica.served == before
    in_the_way.rmdir()
    assert await replica.look()
    assert replica.served not in (None, before)


MISHAPS = {
    "refused, then ended before the write": (CutOff(1, has_effect=False, error=RetryableError("no answer")), CutOff(1)),
    "ended after the write": (CutOff(1, has_effect=True),),
    "the answer lost": (CutOff(1, has_effect=True, error=RetryableError("no answer")),),
}


@pytest.mark.slow
def test_certificates_whose_keepers_are_cut_off_at_every_write_are_those_of_undisturbed_ones(tmp_path: Path) -> None:
    undisturbed = asyncio.run(keep(tmp_path / "undisturbed"))
    assert len({each[0] for each in undisturbed}) == 2, "the authority was renewed"
    assert len({tuple(each) for each in undisturbed}) >= 11, "they were renewed again and again"
    for name, cut_offs in MISHAPS.items():
        assert asyncio.run(keep(tmp_path / name, *cut_offs)) == undisturbed, name
