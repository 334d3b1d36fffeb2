"""The keepers of certificates, cut off at each write: no one is ever shown what he does not trust, none is made twice.

Two replicas look after one Secret and serve with what they last laid out; the scheduler shows and trusts what its
config-manager last copied, its authorities and its certificate perhaps at different times.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gcushare.core.errors import ConflictError, RetryableError
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
from gcushare.wire.contracts import CA, CLIENT_CERT, SERVER_CERT
from tests.played_api import Asked, PlayedApi
from tests.unit.cut_off import CutOff, Ended
from tests.unit.test_verbs_issuing import YEAR, Data, check_handshake

START = datetime(2026, 1, 1, tzinfo=UTC)
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
