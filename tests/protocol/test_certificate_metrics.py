"""When the certificates of a server end, as its metrics tell it: for the files in use, and for no others."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gcushare.cluster.metrics_text import MetricsPage, parse_figures
from gcushare.runtime.http.tls import FollowedTls, Purpose, TlsFiles
from gcushare.runtime.settings.serving import ServeSettings
from tests.protocol.extender_rig import ExtenderRig, extender_settings
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.runtime_bench import SETTINGS
from tests.protocol.runtime_certificates import Authority, Issued, trusting

NAME = "gcushare_tls_certificate_not_after_timestamp_seconds"
DAY = timedelta(days=1)


@dataclass
class Folder:
    """The files of one server, whose certificate ends after ten days."""

    path: Path
    authority: Authority
    clients: Authority

    @classmethod
    def make(cls, path: Path) -> Folder:
        folder = cls(path, Authority("server authority"), Authority("clients"))
        folder.publish(folder.authority.issue("server", lasts=10 * DAY))
        (path / "ca.crt").write_bytes(folder.clients.cert_pem)
        return folder

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(self.path / "tls.crt", self.path / "tls.key", self.path / "ca.crt")

    def settings(self, base: ServeSettings = SETTINGS) -> ServeSettings:
        files = self.files
        return replace(base, tls_cert_file=files.cert, tls_key_file=files.key, tls_client_ca_file=files.client_ca)

    def publish(self, issued: Issued) -> Issued:
        issued.write(self.path)
        return issued

    def end_s(self, name: str) -> float:
        """The end of a file's first certificate, as another library reads it."""
        read = x509.load_pem_x509_certificates((self.path / name).read_bytes())
        return min(each.not_valid_after_utc.timestamp() for each in read)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.make(tmp_path)


def expect_ends(found: MetricsPage, folder: Folder) -> None:
    assert found.sum(NAME, purpose="server", file=str(folder.path / "tls.crt")) == folder.end_s("tls.crt")
    assert found.sum(NAME, purpose="client_ca", file=str(folder.path / "ca.crt")) == folder.end_s("ca.crt")


async def test_an_extender_over_tls_tells_when_its_certificate_and_its_clients_authority_end(folder: Folder) -> None:
    settings = extender_settings(serve=folder.settings())
    client = trusting(folder.authority, folder.clients.issue("prometheus"), folder.path)
    async with ExtenderRig(settings, tls=client) as rig:
        expect_ends(parse_figures((await rig.get("/metrics"))[1]), folder)


async def test_a_plugin_over_tls_tells_the_same(folder: Folder) -> None:
    files = folder.files
    own = {"tls_cert_file": files.cert, "tls_key_file": files.key, "tls_client_ca_file": files.client_ca}
    client = trusting(folder.authority, folder.clients.issue("prometheus"), folder.path)
    async with PluginRig(cards=(1,), plugin=own) as rig:
        expect_ends(parse_figures((await rig.get("/metrics", tls=client))[1]), folder)


def test_a_renewed_certificate_moves_the_end_as_it_is_taken(folder: Folder) -> None:
    tls = FollowedTls(folder.files)
    renewed = folder.publish(folder.authority.issue("server", lasts=90 * DAY))
    assert tls.reload()
    assert {each.purpose: each.not_after.timestamp() for each in tls.ends} == {
        Purpose.SERVER: renewed.end_s,
        Purpose.CLIENT_CA: folder.end_s("ca.crt"),
    }


def test_a_certificate_whose_end_cannot_be_read_is_reported_and_served_all_the_same(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL reads times only when it verifies, which a server's own certificate is not."""
    cert = folder.path / "tls.crt"
    known = x509.load_pem_x509_certificate(cert.read_bytes())
    end = known.not_valid_after_utc.strftime("%y%m%d%H%M%SZ").encode()
    cert.write_text(ssl.DER_cert_to_PEM_cert(known.public_bytes(Encoding.DER).replace(end, b"301301000000Z")))
    tls = FollowedTls(folder.files)
    assert [each.purpose for each in tls.ends] == [Purpose.CLIENT_CA]
    assert "end of TLS certificate not known" in caplog.text
    assert str(cert) in caplog.text
