"""Which pod is which of our programs, and how it was started."""

from __future__ import annotations

import enum
import posixpath

from gcushare.cluster.program_pods import SeenContainer, SeenPod
from gcushare.vendors import ENFLAME, VENDORS_BY_NAME, Vendor
from gcushare.wire import contracts
from gcushare.wire.command_lines import flag_of
from gcushare.wire.pods import is_finished

VENDOR_LABEL = "gcushare.io/vendor"
"""On the plugin's pods, by the chart."""

STATUS_PORT = contracts.PLUGIN_PORT
"""Where a plugin answers unless its pod says otherwise."""
EXTENDER_PORT = contracts.EXTENDER_PORT
_PORT_NAME = "status"
"""The plugin's port in the charts' DaemonSet."""
_CERTIFICATE_FLAG = "tls-cert-file"
_CERTIFICATE_VARIABLE = "GCUSHARE_TLS_CERT_FILE"


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
    """The port where a program's pod answers HTTP: by its flag, else the port named as in the charts, or the first."""
    reported = flag(pod, "listen-port") or ""
    if reported.isdecimal() and int(reported):
        return int(reported)
    ports = [port for container in _containers_of(pod) for port in container.ports]
    named = [port.container_port for port in ports if port.name == _PORT_NAME]
    return next(iter([*named, *(port.container_port for port in ports)]), default)


def has_tls(pod: SeenPod) -> bool:
    """Whether a program's pod answers HTTPS: it does where it is given a certificate, by flag or by variable."""
    return any(
        flag_of(container.words, _CERTIFICATE_FLAG)
        or any(variable.name == _CERTIFICATE_VARIABLE and variable.value for variable in container.env)
        for container in _containers_of(pod)
    )


def _containers_of(pod: SeenPod) -> tuple[SeenContainer, ...]:
    """The program's own container; all of them where its command and image say nothing."""
    container = main_container(pod)
    return pod.spec.containers if container is None else (container,)
