"""Objects for the programs of a playground: a pod for each one, with its port, and the extender's Service.

The programs run as processes, not in containers. With these objects, commands that read the API server (doctor, top,
cards, inspect) find them like programs that the charts installed. Deleting such a pod does not end its process.
"""

from __future__ import annotations

from gcushare._version import __version__
from gcushare.vendors import Vendor
from gcushare_playground.picture import JsonObject
from gcushare_playground.processes import Command

NAMESPACE = "kube-system"
PLUGIN, EXTENDER = "gcushare-device-plugin", "gcushare-scheduler-extender"
SERVICE_PORT = 32766
"""Where the commands look for the extender unless they are given another place."""
_NAME, _PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
_MODULE_WORDS = 3
"""Of a program's command line: the interpreter, ``-m`` and the module."""


def plugin_pod(vendor: Vendor, node: str, command: Command, port: int) -> JsonObject:
    """A node's device plugin, as its DaemonSet has it."""
    pod = _program_pod(f"{PLUGIN}-{node}", PLUGIN, command, node, status=port)
    pod["metadata"]["labels"]["gcushare.io/vendor"] = vendor.name
    return pod


def extender_pod(node: str, command: Command, port: int, page_port: int) -> JsonObject:
    """The scheduler extender, on any node."""
    return _program_pod(EXTENDER, EXTENDER, command, node, extender=port, page=page_port)


def extender_service() -> JsonObject:
    """The Service in front of it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": EXTENDER, "namespace": NAMESPACE, "labels": {_PART_OF: "gcushare"}},
        "spec": {
            "selector": {_NAME: EXTENDER},
            "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": "extender"}],
        },
    }


def _program_pod(name: str, program: str, command: Command, node: str, **ports: int) -> JsonObject:
    container = {
        "name": program,
        "image": f"{program}:{__version__}",
        "command": [program],
        "args": list(command.arguments[_MODULE_WORDS:]),
        "ports": [{"name": name, "containerPort": port, "hostPort": port} for name, port in ports.items()],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {_NAME: program, _PART_OF: "gcushare"}},
        # Of the host's network, so that its address is the loopback address on which the process listens.
        "spec": {"nodeName": node, "hostNetwork": True, "containers": [container]},
    }
