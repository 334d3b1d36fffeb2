"""The extender's entry in a kube-scheduler configuration, of the options in ``manager_settings``."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gcushare.cluster.diagnosis.schedulers import ConfiguredExtender
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.old_schedulers import in_old_spelling
from gcushare.config_manager.scheduler_config.versions import ConfigFormat
from gcushare.config_manager.scheduler_config.yaml_text import Value
from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.parsers import is_http_address
from gcushare.vendors import VENDORS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderTls:
    """What the scheduler needs to verify the extender, as PEM; certificate and key only for mutual TLS."""

    ca: bytes
    server_name: str = ""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderEntry:
    """How kube-scheduler calls the extender."""

    url: str
    """Scheme, address and port. An address, not a service name: the scheduler's pod uses the node's DNS."""
    options: ExtenderOptions
    tls: ExtenderTls | None = None

    def __post_init__(self) -> None:
        problems = []
        if not is_http_address(self.url):
            problems.append(f"extender URL {self.url!r} must look like http://10.96.1.37:32766 or https://...")
        elif urlsplit(self.url).path.strip("/") or urlsplit(self.url).query:
            problems.append(f"extender URL {self.url!r} must end after the port: the path follows from the vendor")
        if self.tls is not None and not self.is_https:
            problems.append(f"a TLS CA is given for extender URL {self.url!r}, which must then begin with https://")
        if problems:
            raise ConfigError(*problems)

    @property
    def is_https(self) -> bool:
        """Whether it is called over TLS. Schemes are compared without case."""
        return self.url.lower().startswith("https:")

    @property
    def is_secret(self) -> bool:
        """Whether the configuration holds a private key, and must be readable by its owner alone."""
        return self.tls is not None and bool(self.tls.key)


def extender_entry(settings: ExtenderEntry, written: ConfigFormat) -> dict[str, Value]:
    """Write the entry as documents of the format ``written`` spell it."""
    options, vendors = settings.options, settings.options.vendors
    entry: dict[str, Value] = {
        "urlPrefix": settings.url.rstrip("/") + vendors[0].url_prefix,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "weight": options.weight,
        "enableHTTPS": settings.is_https,
    }
    if settings.tls is not None:
        tls = entry["tlsConfig"] = {"serverName": settings.tls.server_name} if settings.tls.server_name else {}
        pems = (("caData", settings.tls.ca), ("certData", settings.tls.certificate), ("keyData", settings.tls.key))
        tls.update({key: base64.b64encode(pem).decode() for key, pem in pems if pem})
    milliseconds = round(options.timeout * 1000)
    entry["httpTimeout"] = f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
    # The scheduler sends names of nodes instead of whole nodes: our extender watches the nodes itself.
    entry["nodeCacheCapable"] = True
    # The scheduler counts these resources too and skips full nodes before it calls the extender. Its totals are right:
    # while one resource uses a card, the plugin reports the other resource's units of this card as unhealthy.
    counted = [vendor.memory_resource for vendor in vendors]
    if options.whole_cards:
        counted += [vendor.whole_card_resource for vendor in vendors]
    # The admission policy marks pods with claims with a resource that no node lists.
    marks = [vendor.claims.extender_resource for vendor in vendors] if options.claims else []
    entry["managedResources"] = [{"name": name, "ignoredByScheduler": name in marks} for name in (*counted, *marks)]
    entry["ignorable"] = options.ignorable
    return in_old_spelling(entry, options.timeout) if written.has_old_spelling else entry


OUR_PATHS = frozenset(vendor.url_prefix for vendor in VENDORS)
"""The paths of our extender's URL, for each vendor."""


def is_ours(found: ConfiguredExtender, settings: ExtenderEntry) -> bool:
    """Recognise our entry in an existing configuration by its URL's path; the one of another vendor by its address too.

    Not by the resources that it manages: the extender of another product may manage ours among others.
    """
    address = urlsplit(settings.url)
    is_same = (found.host, found.port) == (address.hostname, address.port)
    return found.path in {each.url_prefix for each in (VENDORS if is_same else settings.options.vendors)}
