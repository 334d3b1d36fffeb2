"""What ``gcushare cards`` takes."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gcushare.cluster.cluster_flags import plugin_namespace
from gcushare.runtime.exit_codes import FAILED
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, choice_setting, group, optional_setting, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.parsers import is_http_address
from gcushare.wire.contracts import PLUGIN_PORT

CARDS = "gcushare cards"
HERE = tuple(f"{scheme}://127.0.0.1:{PLUGIN_PORT}" for scheme in ("http", "https"))
"""Where this machine's plugin answers."""


class CardsOutput(enum.Enum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


@settings
class CardsSettings:
    """Cards."""

    node: str | None = optional_setting(
        parsers.optional_text("NODE", "this machine", "a node's name"),
        argument=True,
        help="Ask the plugins of this node through the API server, which needs the right to get pods/proxy.",
    )
    plugin: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("URL", accepted="http://HOST:PORT or https://HOST:PORT")),
        default=(),
        help="Ask the plugins at these addresses. Empty asks the plugin of this machine at "
        f"{HERE[0]} and, if that does not answer, over HTTPS. At a loopback address any certificate is "
        "accepted, elsewhere the system's authorities count.",
    )
    output: CardsOutput = choice_setting(
        CardsOutput.TABLE,
        short="-o",
        help="table for people, wide with serial numbers, slots, persistence mode, power limit, CUDA version, ECC, "
        "MIG, fan and, on this machine, pods' uids, json with everything.",
    )
    plugin_namespace: str = plugin_namespace()
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """Addresses have a scheme and a host; a node is asked through the API server, an address is not."""
        for url in self.plugin:
            if not is_http_address(url):
                yield f"plugin {url!r} must be http://HOST:PORT or https://HOST:PORT"
        if self.node is not None and self.plugin:
            yield f"NODE {self.node!r} is asked through the API server, plugin is an address: leave one out"


PROGRAM = Program(
    name=CARDS,
    summary="Show a node's cards: state, mode, memory granted and memory really used, temperature, power, and the pods "
    "on each card with their processes. Without NODE it asks the plugin of this machine. It changes nothing.",
    settings=CardsSettings,
    examples=(
        (CARDS, "in a plugin's pod: its node's cards"),
        (f"{CARDS} gpu-7", "another node's, from anywhere with a kubeconfig"),
        (f"FORCE_COLOR=1 watch --color {CARDS}", "looked at every two seconds"),
        (f"{CARDS} --plugin http://127.0.0.1:32767,http://127.0.0.1:32768", "two vendors' plugins of one node"),
        (f"{CARDS} -o json | jq '.nodes[].status.cards[] | {{index, health, reason}}'", "for programs"),
    ),
    exit_status={FAILED: "One of several plugins did not answer; or refused, or not found. The reason is on stderr."},
    notes="A process is shown with its pod where its control group on this machine carries the pod's uid, else with "
    "its card alone. What a card or its library does not report is shown as '-'. NO_COLOR and FORCE_COLOR are obeyed, "
    "and on a terminal COLUMNS; a pipe gets whole lines.",
)
