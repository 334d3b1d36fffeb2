"""kube-scheduler that calls the extender over mutual TLS, with the certificates that the extender made."""

from __future__ import annotations

import base64

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls
from gcushare.kube.resources import Resource
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CA, CLIENT_CERT, CLIENT_KEY
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ControlPlane
from tests.e2e.machine import free_port
from tests.e2e.objects import JsonObject, card_of, node, pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until

SECRETS: Resource[JsonObject] = Resource("api/v1", "secrets", dict)
SECRET, NAME = "verbs", "extender.default.svc"


async def scheduler_side(control_plane: ControlPlane, port: int) -> ExtenderEntry:
    """What the config-manager would have the scheduler use, once the extender has made it."""
    data: dict[str, bytes] = {}

    async def problem() -> str:
        found = await control_plane.client.get(SECRETS, SECRET, namespace="default")
        data.update({key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()})
        return "" if data else "the Secret is empty"

    await until(problem, "the extender fills the Secret", deadline_s=180)
    tls = ExtenderTls(ca=data[CA], server_name=NAME, certificate=data[CLIENT_CERT], key=data[CLIENT_KEY])
    return ExtenderEntry(url=f"https://127.0.0.1:{port}", options=ExtenderOptions(vendor="enflame"), tls=tls)


async def test_a_real_scheduler_places_pods_over_mutual_tls_and_no_other_caller_does(
    control_plane: ControlPlane,
) -> None:
    need_binaries("kube-scheduler")
    await control_plane.client.create(SECRETS, {"metadata": {"name": SECRET}, "type": "Opaque"}, namespace="default")
    port = free_port()
    flags = ("--verbs=tls", f"--verbs-port={port}", f"--verbs-secret=default/{SECRET}", f"--verbs-server-name={NAME}")
    async with Scheduling(control_plane, ("--no-leader-elect", *flags)) as scheduling:
        await scheduling.start_extender()
        await control_plane.start_scheduler(await scheduler_side(control_plane, port))
        await scheduling.create_nodes([node("cards", 16, 16)])
        await scheduling.create_pods([pod("first", 12), pod("second", 12)])
        await scheduling.until_bound("first", "second")
        assert {card_of(scheduling.pod(name)) for name in ("first", "second")} == {(0,), (1,)}
        async with control_plane.http.post(
            f"{scheduling.extender_url}{ENFLAME.url_prefix}/bind", data=b"{}", headers={"Authorization": ""}
        ) as answer:
            assert answer.status == 403
