"""What an admin wants of the extender's entry, before its address and its CA are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gcushare.config_manager.scheduler_config.extender_entry import DEFAULT_TIMEOUT_S, ExtenderSettings, ExtenderTls
from gcushare.core.errors import ConfigError
from gcushare.vendors.aliyun import ALIYUN
from gcushare.vendors.enflame import ENFLAME
from gcushare.vendors.vendor import Vendor

VENDOR_CHOICES: dict[str, tuple[Vendor, ...]] = {
    "enflame": (ENFLAME,),
    "aliyun": (ALIYUN,),
    "both": (ENFLAME, ALIYUN),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderOptions:
    """The options of the command line that speak of the extender."""

    url: str | None = None
    service: str = "kube-system/gcushare-scheduler-extender"
    """Namespace and name of the Service to take the address from when no URL is given."""
    vendors: tuple[Vendor, ...] = (ENFLAME,)
    whole_cards: bool = False
    weight: int = 1
    timeout_s: float = DEFAULT_TIMEOUT_S
    ignorable: bool = False
    node_cache_capable: bool = True
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls_ca is None else "https"

    @property
    def server_name(self) -> str:
        """The name in the extender's certificate: its Service's, unless another one is given."""
        if self.tls_server_name is not None:
            return self.tls_server_name
        namespace, _, name = self.service.partition("/")
        return f"{name}.{namespace}.svc"


def extender_settings(options: ExtenderOptions, url: str) -> ExtenderSettings:
    """Build the entry's settings, the TLS files read anew each time: a renewed CA holds at the next look.

    Raises:
        ConfigError: a TLS file cannot be read, or the options do not fit together.
    """
    tls = None
    if options.tls_ca is not None:
        tls = ExtenderTls(
            ca=_pem(options.tls_ca),
            server_name=options.server_name,
            certificate=_pem(options.tls_cert),
            key=_pem(options.tls_key),
        )
    return ExtenderSettings(
        url=url,
        vendors=options.vendors,
        whole_cards=options.whole_cards,
        weight=options.weight,
        timeout_s=options.timeout_s,
        ignorable=options.ignorable,
        node_cache_capable=options.node_cache_capable,
        tls=tls,
    )


def _pem(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"TLS file {str(path)!r} cannot be read: {error.strerror}") from error
    if b"-----BEGIN " not in content:
        raise ConfigError(f"TLS file {str(path)!r} is not PEM: it has no '-----BEGIN' line")
    return content
