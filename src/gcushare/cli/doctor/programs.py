"""Which pod is which of our programs, and how it was started."""

from __future__ import annotations

import enum
import posixpath

from gcushare.cli.doctor.objects import SeenContainer, SeenPod
from gcushare.vendors import ENFLAME, VENDORS_BY_NAME, Vendor
from gcushare.wire import contracts
from gcushare.wire.command_lines import flag_of
from gcushare.wire.pods import is_finished

VENDOR_LABEL = "gcushare.io/vendor"
"""On the plugin's pods, by the chart."""

STATUS_PORT = contracts.PLUGIN_PORT
"""Where a plugin answers unless its pod says otherwise."""
EXTENDER_PORT = contracts.EXTENDER_PORT


class Program(enum.Enum):
    """A program that is looked for; the value is the name of its command and of its image."""

    PLUGIN = contracts.DEVICE_PLUGIN
    EXTENDER = contracts.EXTENDER
    CONFIG_MANAGER = contracts.CONFIG_MANAGER
    SCHEDULER = "kube-scheduler"


_ONE_SHOTS = frozenset({"uninstall", "--remove-from-node", "--status"})
"""Words that make a program do one thing and end."""


def program_of(pod: SeenPod) -> Program | None:
    """Which program a pod runs; None for all others, for ended pods and for one-shots."""
    container = main_container(pod)
    if container is None or is_finished(pod) or _ONE_SHOTS & set(container.words):
        return None
    return _program_of(container)


def main_container(pod: SeenPod) -> SeenContainer | None:
    """The container that runs one of the programs."""
    return next((each for each in pod.spec.containers if _program_of(each) is not None), None)


def _program_of(container: SeenContainer) -> Program | None:
    # The extender's image holds the config manager too, so the command decides where there is one.
    command = {posixpath.basename(word) for word in container.words[:2]}
    by_command = next((each for each in Program if each.value in command), None)
    if by_command is not None or container.command:
        return by_command
    image = posixpath.basename(container.image.partition("@")[0]).partition(":")[0]
    return next((each for each in Program if each.value == image), None)


def flag(pod: SeenPod, name: str) -> str | None:
    """The value of a flag of the program that a pod runs."""
    container = main_container(pod)
    return None if container is None else flag_of(container.words, name)


def vendor_of_plugin(pod: SeenPod) -> Vendor:
    """Whose cards a plugin's pod offers, as far as the pod says; the plugin's own status knows better."""
    name = flag(pod, "vendor") or pod.metadata.labels.get(VENDOR_LABEL, "")
    return VENDORS_BY_NAME.get(name, ENFLAME)


def port_of(pod: SeenPod, default: int) -> int:
    """The port on which a program's pod answers HTTP."""
    container = main_container(pod)
    declared = container.ports if container is not None else ()
    told = flag(pod, "listen-port") or ""
    if told.isdecimal() and int(told):
        return int(told)
    return declared[0].container_port if declared else default


def has_tls(pod: SeenPod) -> bool:
    """Whether a program's pod answers HTTPS."""
    return bool(flag(pod, "tls-cert-file"))
