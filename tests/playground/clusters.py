"""A cluster of the real programs for one test module; the doubles run in the test's own process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gcushare.playground.cluster import Cluster
from gcushare.playground.doubles import InsideDoubles
from gcushare.playground.plans import ClusterPlan
from tests.playground.census import Census


@asynccontextmanager
async def started(plan: ClusterPlan) -> AsyncIterator[Census]:
    """Start a whole cluster; where something goes wrong, its programs' last lines go with the message."""
    doubles = InsideDoubles()
    async with Cluster(plan, doubles) as cluster:
        try:
            await cluster.start_all()
            yield Census(cluster, doubles)
        except BaseException as error:
            error.add_note(cluster.describe_programs())
            raise
