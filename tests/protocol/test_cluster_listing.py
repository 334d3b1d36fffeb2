"""What is listed of a cluster whose API server forgets a list before its last page was read."""

from __future__ import annotations

from gcushare.cluster.listing import list_objects
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import EVERYTHING, PODS
from gcushare.wire.objects import POD
from tests.protocol.kube_server import answer, scripted, status


def pod(name: str, **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata}}


async def test_what_went_away_between_two_lists_is_not_among_what_is_found() -> None:
    unreadable = pod("odd", annotations="none")
    first = {"metadata": {"continue": "more"}, "items": [pod("stays"), pod("goes"), unreadable]}
    again = {"metadata": {}, "items": [pod("stays"), pod("comes"), unreadable]}
    problems: list[str] = []
    counted: list[int] = []
    async with scripted() as server, KubeClient(server.config()) as client:
        server.on("GET", "/api/v1/pods", answer(200, first), status(410, "Expired"), answer(200, again))
        found = await list_objects(
            client, PODS, EVERYTHING, POD.read, problems=problems, progress=lambda _, count: counted.append(count)
        )
    assert [each.key for each in found] == ["ns/stays", "ns/comes"]
    assert len(problems) == 1
    assert counted == [1, 2, 3, 1, 2, 3]
