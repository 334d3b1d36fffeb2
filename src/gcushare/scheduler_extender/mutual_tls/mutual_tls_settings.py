"""How the scheduler's calls reach the extender."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, optional_setting, setting, settings, switch
from gcushare.runtime.settings.parsers import ObjectName, object_name
from gcushare.wire.contracts import EXTENDER, NAMESPACE, SCHEDULER_NAME, VERBS_PORT


class Verbs(enum.Enum):
    """Where filter, prioritize, preempt and bind are answered."""

    PLAIN = "plain"
    TLS = "tls"
    BOTH = "both"
    OFF = "off"

    @property
    def is_plain(self) -> bool:
        """Whether they are answered on the first port, to every caller."""
        return self in (Verbs.PLAIN, Verbs.BOTH)

    @property
    def needs_certificates(self) -> bool:
        """Whether they are answered over mutual TLS."""
        return self in (Verbs.TLS, Verbs.BOTH)


@settings
class VerbsSettings:
    """The scheduler's calls."""

    verbs: Verbs = choice_setting(
        Verbs.PLAIN,
        help="Where filter, prioritize, preempt and bind are answered: plain on the first port as the manual has it; "
        "tls over mutual TLS on a port of their own; both on both ports; off nowhere, for a cluster whose nodes all "
        "serve claims: inspect, explain, the page and metrics stay.",
    )
    verbs_port: int = setting(
        parsers.integer(0, 65535, "PORT"),
        default=VERBS_PORT,
        help="That port, where another program has it; 0 takes a free one and logs which.",
    )
    verbs_secret: ObjectName | None = optional_setting(
        parsers.optional(object_name("namespace/name of a Secret"), "verbs-tls-dir is used"),
        help="An existing Secret (the chart makes it) that the certificates of both sides are made in, and renewed; "
        "may be empty.",
    )
    verbs_server_name: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("NAME", accepted="a DNS name")),
        default=(f"{EXTENDER}.{NAMESPACE}.svc",),
        help="Names of the server in a certificate that is made; the first is the one that schedulers expect. The "
        "chart "
        "sets it to its Service's.",
    )
    verbs_client_name: str = setting(
        parsers.text("NAME"),
        default=SCHEDULER_NAME,
        help="The name that a client's certificate must have, as its common name or a DNS name; no other client is "
        "served. Another one only with verbs-tls-dir: what is made in verbs-secret always names the default.",
    )
    verbs_tls_dir: Path | None = optional_setting(
        parsers.optional(parsers.path("DIR"), "verbs-secret is used"),
        help="Instead of verbs-secret: a folder with the server's certificate chain tls.crt, its key tls.key and the "
        "authorities of the scheduler's certificate ca.crt, in PEM; followed live. The chart mounts a Secret there.",
    )
    tls_from_verbs_secret: bool = switch(
        help="Serve the first port over HTTPS with the server's certificate in verbs-secret, which clients verify by "
        "the Secret's ca.crt. At the first start the port opens once the certificate is made.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """Mutual TLS needs certificates: from a Secret, or from files."""
        has_files = self.verbs_tls_dir is not None
        if self.verbs.needs_certificates and has_files == (self.verbs_secret is not None):
            yield (
                f"verbs {self.verbs.value!r} needs either verbs-secret or verbs-tls-dir; "
                f"{'both are' if has_files else 'neither is'} set"
            )
        elif self.verbs.needs_certificates and not has_files and self.verbs_client_name != SCHEDULER_NAME:
            yield (
                f"verbs-client-name {self.verbs_client_name!r}: a certificate made in verbs-secret names "
                f"{SCHEDULER_NAME!r}, and no scheduler that shows it would be served: leave verbs-client-name out, or "
                "give certificates of your own by verbs-tls-dir"
            )
        if self.tls_from_verbs_secret and self.verbs_secret is None:
            yield "tls-from-verbs-secret needs verbs-secret, in which the certificate is made: set it as well"
