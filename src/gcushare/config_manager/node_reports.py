"""The ConfigMap that all config managers share: the mode that the admin wants, and one report per node."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gcushare.config_manager.extender_address import find_extender
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.reconcile import State, WantedMode
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import ForbiddenError, NotFoundError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import CONFIG_MAPS, NODES
from gcushare.wire.contracts import CONFIG_MANAGER
from gcushare.wire.documents import node_report
from gcushare.wire.documents.node_report import NodeReport


@dataclass(slots=True)
class SharedConfigMap:
    """What a node reads and reports through the API server: the desired mode, the extender's address, its own state.

    Reports stand under a key per node, and merge patches keep those of other nodes. An admin who replaces or recreates
    the ConfigMap removes them, so each read of the mode also finds out whether this node's report is still there.
    """

    client: KubeClient
    options: ExtenderOptions
    namespace: str
    node: str
    _written: Mapping[str, str] = field(default_factory=dict)

    async def mode(self) -> WantedMode:
        """Read the mode. Without a ConfigMap, or a mode in it, the admin wants what this program was started for."""
        data = await _read(self.client, self.namespace)
        self._written = {key: text for key, text in data.items() if key == node_report.REPORT_KEY_PREFIX + self.node}
        mode = data.get(node_report.MODE_KEY, WantedMode.APPLY.value)
        try:
            return WantedMode(mode)
        except ValueError as error:
            accepted = " or ".join(repr(each.value) for each in WantedMode)
            raise RemoteContractError(
                f"ConfigMap {CONFIG_MANAGER}: {node_report.MODE_KEY} is {mode!r}, expected {accepted}"
            ) from error

    async def extender(self) -> ExtenderEntry:
        return await find_extender(self.client, self.options)

    async def report(self, state: State, reason: str) -> None:
        data = node_report.encode_node_report(self.node, state.value, reason)
        if data == self._written:
            return
        # Until the answer arrives, and if none does, the stored report is unknown.
        self._written = {}
        await _write(self.client, self.namespace, data)
        self._written = data


async def write_mode(client: KubeClient, namespace: str, mode: WantedMode) -> None:
    """Have every node apply or recover."""
    await _write(client, namespace, {node_report.MODE_KEY: mode.value})


async def read_reports(client: KubeClient, namespace: str) -> list[NodeReport]:
    """Read the last report of every node that still exists, ordered by name."""
    reports = node_report.decode_node_reports(await _read(client, namespace))
    found: list[NodeReport] = []
    for report in reports:
        with suppress(NotFoundError):
            await client.get(NODES, report.node)
            found.append(report)
    return found


async def _read(client: KubeClient, namespace: str) -> Mapping[str, str]:
    try:
        return (await client.get(CONFIG_MAPS, CONFIG_MANAGER, namespace=namespace)).data
    except NotFoundError:
        return {}


async def _write(client: KubeClient, namespace: str, data: Mapping[str, str]) -> None:
    """Set keys of the ConfigMap; create it if it does not exist."""
    patch = Patch(PatchKind.MERGE, {"data": dict(data)})
    try:
        await client.patch(CONFIG_MAPS, CONFIG_MANAGER, patch, namespace=namespace)
    except NotFoundError:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MANAGER}, "data": dict(data)}
        try:
            await client.create(CONFIG_MAPS, body, namespace=namespace)
        except ForbiddenError as error:
            raise ForbiddenError(
                f"ConfigMap {CONFIG_MANAGER} is gone from namespace {namespace}, and only an admin may create it: "
                f"install again by helm upgrade, deploy.sh or kubectl apply ({error})"
            ) from error
