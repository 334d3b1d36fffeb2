"""What the real programs log at debug while the API server answers with names and tokens, cut for a support bundle."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.cli.support_bundle.redact import Redactor
from gcushare.core.units import GIB
from gcushare_playground.apiserver import FailBefore, Fault
from gcushare_playground.picture import poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import Census
from tests.playground.clusters import started

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("logs in a bundle"), pytest.mark.slow]

NODE = "node-1"
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SECRETS = ("alice", "payroll", "swordfish", TOKEN)
MESSAGE = f'User "alice" of system:serviceaccount:payroll:runner may not: the password is swordfish, the token {TOKEN}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def census() -> AsyncIterator[Census]:
    debug = ("--log-level", "debug")
    plan = ClusterPlan(
        nodes=(NodePlan(name=NODE, card_bytes=(16 * GIB,) * 2),),
        wait_factor=0.1,
        plugin_flags=debug,
        extender_flags=debug,
    )
    async with started(plan) as running:
        yield running


async def test_nothing_secret_of_a_real_log_is_in_a_bundle(census: Census) -> None:
    faults = census.doubles.api.faults
    for method, path, count in (("POST", "/events", 3), ("PATCH", r"/pods/[^/?]+/status", 12), ("", "/leases", 1)):
        faults.on(Fault(FailBefore(503, "ServiceUnavailable", MESSAGE), path=path, method=method, count=count))
    annotations = {"example.com/password": "swordfish"}
    keys = [await census.create(f"p{number}", 6, annotations=annotations) for number in range(3)]
    await census.wait_quiet(len(keys))
    logs = {"plugin": census.cluster.plugins[NODE].log_file}
    assert census.cluster.extender is not None
    logs["extender"] = census.cluster.extender.log_file

    async def look() -> str | None:
        missing = [name for name, log in logs.items() if "swordfish" not in log.read_text()]
        return f"no failure is logged by {missing}" if missing else None

    await poll_until(look, "both programs logged a failure", deadline_s=25)
    faults.clear()
    names = {NODE, *keys}
    for name, log in logs.items():
        written = log.read_text()
        kept = Redactor().text(cut_log(written, names))
        assert [secret for secret in SECRETS if secret in kept] == [], name
        # The control: most lines are kept, with the pods and the failure in them.
        assert len(kept.splitlines()) > 0.8 * len(written.splitlines())
        assert "error=" in kept
        assert all(key in kept for key in keys)
