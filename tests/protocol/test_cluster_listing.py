"""What is listed of a cluster whose API server forgets a list before its last page was read."""

from __future__ import annotations

from gcushare.cluster.reader import Reader, ReadProgress
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import PODS
from gcushare.wire.objects import POD
from tests.protocol.kube_server import answer, scripted, status


def pod(name: str, **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata}}


class Counted(ReadProgress):
    def __init__(self) -> None:
        self.counts: list[int] = []

    def count(self, what: str, count: int) -> None:
        self.counts.append(count)


async def test_what_went_away_between_two_lists_is_not_among_what_is_found() -> None:
    unreadable = pod("odd", annotations="none")
    first = {"metadata": {"continue": "more"}, "items": [pod("stays"), pod("goes"), unreadable]}
    again = {"metadata": {}, "items": [pod("stays"), pod("comes"), unreadable]}
    counted = Counted()
    async with scripted() as server, KubeClient(server.config()) as client:
        server.on("GET", "/api/v1/pods", answer(200, first), status(410, "Expired"), answer(200, again))
        reader = Reader(client, counted)
        found = await reader.list_objects(PODS, POD.read)
    assert [each.key for each in found] == ["ns/stays", "ns/comes"]
    assert len(reader.problems) == 1
    assert counted.counts == [1, 2, 3, 1, 2, 3]
