"""A cluster of the real programs for one test module."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.cluster import Cluster
from gcushare_playground.commands import port_of
from gcushare_playground.plans import ClusterPlan
from gcushare_playground.processes import Child
from tests.playground.census import Census
from tests.protocol.doctor_rig import SYSTEM, program_pod

BIN = Path(sys.executable).parent
"""Where our commands are installed."""
_LISTENING = re.compile(r"\blistening\b.*\burl=(\S+)")


@asynccontextmanager
async def started(plan: ClusterPlan) -> AsyncIterator[Census]:
    """Start a whole cluster; where something goes wrong, its programs' last lines go with the message."""
    async with Cluster(plan) as cluster:
        try:
            await cluster.start_all()
            yield Census(cluster)
        except BaseException as error:
            error.add_note(cluster.describe_programs())
            raise


def listening_url(program: Child) -> str:
    """Where a program listens, by its own log."""
    urls: list[str] = _LISTENING.findall(program.log_file.read_text())
    assert urls, program.describe_tail()
    return urls[-1]


def show_program(census: Census, node: str, name: str, url: str, page_url: str = "") -> None:
    """Show a running program as a cluster shows it: as a pod of its node, with its port."""
    pod = program_pod(f"{name}-1", name, port_of(url), node="", page_port=port_of(page_url))
    pod["metadata"]["labels"]["app"] = name
    del pod["spec"]["nodeName"]
    census.cluster.doubles.api.registry.put(pod)

    def bind(obj: JsonObject) -> JsonObject:
        """Bound with the address that it really has, before the kubelet sees it."""
        return {**obj, "spec": {**obj["spec"], "nodeName": node}, "status": {**obj["status"], "podIP": "127.0.0.1"}}

    census.cluster.doubles.api.registry.rewrite(BY_NAME["pods"], Key(SYSTEM, f"{name}-1"), bind)
