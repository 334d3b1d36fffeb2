"""When the certificates of a server end, as its metrics tell it: for the files in use, and for no others."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gcushare.cluster.metrics_text import parse_figures
from gcushare.runtime.http.tls import FollowedTls, Purpose
from tests.protocol.extender_rig import ExtenderRig, extender_settings
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.runtime_certificates import Authority, Issued, trusting
from tests.protocol.tls_secret import Secret

NAME = "gcushare_tls_certificate_not_after_timestamp_seconds"


@dataclass
class Server:
    """The files of one server, whose certificate ends after ten days, and the authority of its clients."""

    secret: Secret
    clients: Authority

    def client(self) -> ssl.SSLContext:
        return trusting(self.secret.authority, self.clients.issue("prometheus"), self.secret.folder)

    def publish(self, days: int) -> Issued:
        issued = self.secret.authority.issue("server", lasts=timedelta(days=days))
        self.secret.publish(issued, self.clients)
        return issued

    def end_s(self, name: str) -> float:
        """The end of a file's first certificate, as another library reads it."""
        read = x509.load_pem_x509_certificates((self.secret.folder / name).read_bytes())
        return min(each.not_valid_after_utc.timestamp() for each in read)

    def expect_ends(self, metrics: str) -> None:
        found = parse_figures(metrics)
        for purpose, name in (("server", "tls.crt"), ("client_ca", "ca.crt")):
            assert found.sum(NAME, purpose=purpose, file=str(self.secret.folder / name)) == self.end_s(name)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    made = Server(Secret.begin(tmp_path / "secret"), Authority("clients"))
    made.publish(days=10)
    return made


async def test_an_extender_over_tls_tells_when_its_certificate_and_its_clients_authority_end(server: Server) -> None:
    settings = extender_settings(serve=server.secret.settings())
    async with ExtenderRig(settings, tls=server.client()) as rig:
        server.expect_ends((await rig.get("/metrics"))[1])


async def test_a_plugin_over_tls_tells_the_same(server: Server) -> None:
    files = server.secret.files
    own = {"tls_cert_file": files.cert, "tls_key_file": files.key, "tls_client_ca_file": files.client_ca}
    async with PluginRig(cards=(1,), plugin=own) as rig:
        server.expect_ends((await rig.get("/metrics", tls=server.client()))[1])


def test_a_renewed_certificate_moves_the_end_as_it_is_taken(server: Server) -> None:
    tls = FollowedTls(server.secret.files)
    renewed = server.publish(days=90)
    assert tls.reload()
    assert {each.purpose: each.not_after.timestamp() for each in tls.ends} == {
        Purpose.SERVER: renewed.end_s,
        Purpose.CLIENT_CA: server.end_s("ca.crt"),
    }


def test_a_certificate_whose_end_cannot_be_read_is_reported_and_served_all_the_same(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenSSL reads times only when it verifies, which a server's own certificate is not."""
    cert = server.secret.folder / "tls.crt"
    known = x509.load_pem_x509_certificate(cert.read_bytes())
    end = known.not_valid_after_utc.strftime("%y%m%d%H%M%SZ").encode()
    cert.write_text(ssl.DER_cert_to_PEM_cert(known.public_bytes(Encoding.DER).replace(end, b"301301000000Z")))
    assert [each.purpose for each in FollowedTls(server.secret.files).ends] == [Purpose.CLIENT_CA]
    assert "end of TLS certificate not known" in caplog.text
    assert str(cert) in caplog.text
