"""Settings of every server: address and TLS. The limits of connections and requests are constants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import optional_setting, setting, settings


@settings
class ServeSettings:
    """Serving."""

    # Not `host` and `port`: Kubernetes sets GCUSHARE_PORT=tcp://... in every pod if a Service is named gcushare.
    listen_address: str = setting(
        parsers.text("ADDRESS", accepted="an IP address or a host name of this machine"),
        default="::",
        help="Address to listen on, for an admin who opens one of several networks alone; :: listens on IPv6 and IPv4, "
        "and on IPv4 alone where the kernel has no IPv6.",
    )
    listen_port: int = setting(
        parsers.integer(0, 65535, "PORT"), default=0, help="Port to listen on; 0 takes a free one and logs which."
    )
    tls_cert_file: Path | None = optional_setting(
        parsers.optional_file("plain HTTP"),
        help="For an admin who wants HTTPS (the extender's chart sets it by tls.mode): certificate chain in PEM; "
        "followed "
        "live, so a renewed certificate needs no restart.",
    )
    tls_key_file: Path | None = optional_setting(
        parsers.optional_file("plain HTTP"), help="Private key of the certificate in PEM; followed live."
    )
    tls_client_ca_file: Path | None = optional_setting(
        parsers.optional_file("clients need no certificate"),
        help="Certificate authorities in PEM whose clients may call; /healthz and /readyz stay open for the kubelet. "
        "Followed live.",
    )
    max_connections: int = 512
    """At the limit one makes room (see ``runtime.http.connections``); if all are being answered, the answer is 503."""
    max_request_size: int = 8 << 20
    """Bytes of the largest body: a pod of etcd's size limit and the names of 15,000 nodes."""
    request_timeout: float = 10.0
    """Seconds for a client to send the head of a request, then its body, then to go on reading the answer."""
    idle_timeout: float = 120.0
    """Seconds that a connection without requests stays open: longer than the 90 s of Go clients, so that no request
    meets a connection that closes."""

    def find_conflicts(self) -> Iterator[str]:
        """Certificate and key need each other; client certificates need both."""
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            cert, key = _show(self.tls_cert_file), _show(self.tls_key_file)
            yield f"tls-cert-file {cert} and tls-key-file {key} belong together: set both, or neither"
        elif self.tls_client_ca_file is not None and self.tls_cert_file is None:
            ca = _show(self.tls_client_ca_file)
            yield f"tls-client-ca-file {ca} has no effect without TLS: set tls-cert-file and tls-key-file as well"


def _show(path: Path | None) -> str:
    return "(empty)" if path is None else repr(str(path))
