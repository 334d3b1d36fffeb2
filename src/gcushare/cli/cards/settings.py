"""What ``gcushare cards`` takes."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from gcushare._version import __version__
from gcushare.cards.libraries import LIBRARY_FORMS, SOURCES
from gcushare.cluster.settings import PluginPodSettings
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.groups import KubeSettings

CARDS = "gcushare cards"
DEFAULT_PLUGIN = "http://127.0.0.1:32767"
AUTO = "auto"


class Output(enum.Enum):
    """What is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


def _file(unset: str) -> parsers.Parser[Path | None]:
    return parsers.optional(parsers.path("FILE"), unset)


@settings
class HereSettings:
    """On this machine."""

    plugin: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("URL", accepted="http://HOST:PORT or https://HOST:PORT")),
        default=(),
        help=f"Ask the plugins here and nothing else. Empty asks {DEFAULT_PLUGIN}, then the vendors' libraries.",
    )
    tls_ca_file: Path | None = setting(
        _file("the system's; at a loopback address any is accepted"),
        default=None,
        help="Certificate authorities in PEM that vouch for https plugins.",
    )
    tls_cert_file: Path | None = setting(
        _file("none is shown"),
        default=None,
        env="GCUSHARE_CARDS_TLS_CERT_FILE",
        help="Certificate in PEM for plugins that ask their clients for one.",
    )
    tls_key_file: Path | None = setting(
        _file("none is shown"), default=None, env="GCUSHARE_CARDS_TLS_KEY_FILE", help="Its private key in PEM."
    )
    cards: str | None = setting(
        parsers.optional(parsers.text("SOURCE", accepted=" or ".join(SOURCES)), AUTO),
        default=None,
        env="GCUSHARE_CARDS_SOURCE",  # GCUSHARE_CARDS is the plugin's
        help="Ask no plugin but this library, which knows no pods; with --plugin too, only where none answers.",
    )
    card_library: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("NAME=FILE", accepted=" or ".join(LIBRARY_FORMS))),
        default=(),
        help="A vendor's management library that is not in the usual places, such as efml=/opt/libefml.so.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """Addresses have a scheme and a host; a certificate has a key."""
        for url in self.plugin:
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
                yield f"plugin {url!r} must be http://HOST:PORT or https://HOST:PORT"
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            yield "tls-cert-file and tls-key-file belong together: set both, or neither"


@settings
class CardsSettings:
    """Cards."""

    node: str | None = setting(
        parsers.optional(parsers.text("NODE", accepted="a node's name"), "this machine"),
        default=None,
        argument=True,
        help="Ask the plugins of this node through the API server, which needs the right to get pods/proxy.",
    )
    output: Output = setting(
        parsers.choice(Output),
        default=Output.TABLE,
        short="-o",
        help="table for people, wide with serial numbers, slots, ECC, MIG, fan and pods' uids, json with everything.",
    )
    watch: bool = setting(
        parsers.boolean(), default=False, short="-w", help="Read again and again until interrupted (Ctrl-C)."
    )
    interval: float = setting(parsers.duration_s(0.2, 3600), default=1.0, help="With --watch: between two readings.")
    color: bool | None = setting(
        parsers.maybe_boolean(),
        default=None,
        help="Colours; without the flag on terminals only, and not where NO_COLOR is set.",
    )
    here: HereSettings = group(HereSettings)
    plugins: PluginPodSettings = group(PluginPodSettings)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """A node is asked through the API server, this machine is not."""
        if self.node is not None and (self.here.plugin or self.here.cards is not None):
            yield f"NODE {self.node!r} is asked through the API server; plugin and cards mean this one: leave one out"


CARDS_PROGRAM = Program(
    name=CARDS,
    summary="Show a node's cards: state, mode, memory granted and memory really used, temperature, power, and the pods "
    "on each card with their processes. Without NODE it asks the plugin of this machine, or where none answers the "
    "vendors' libraries, which know no pods. It changes nothing.",
    version=__version__,
    settings=CardsSettings,
    examples=(
        (CARDS, "on a node: its own cards"),
        (f"{CARDS} gpu-7", "another node's, from anywhere with a kubeconfig"),
        (f"{CARDS} -w", "looked at every second"),
        (f"{CARDS} --plugin http://127.0.0.1:32767,http://127.0.0.1:32768", "two vendors' plugins of one node"),
        (f"{CARDS} -o json | jq '.nodes[].cards[] | select(.healthy | not)'", "for programs"),
    ),
    notes="A process is shown with its pod where its control group on this machine carries the pod's uid, else with "
    "its card alone. What a library does not report is shown as '-'; how the driver runs a card (fan, performance "
    "state, ECC, MIG, compute mode) stands in the wide form, n/a where the card or its library has no such thing. "
    "NO_COLOR and COLUMNS are obeyed.",
)
