"""What kube-apiserver keeps of a pod that its author wrote as deep as it takes, and who can still read it."""

from __future__ import annotations

from gcushare.kube.clock import SystemClock
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import PODS, Selector
from gcushare.wire.objects import POD
from tests.e2e.control_plane import ControlPlane
from tests.protocol.reflector_rig import Picture
from tests.running import running

LEVELS = 4000


def deep_pod(name: str) -> bytes:
    fields = b'{"f:a":' * LEVELS + b"{}" + b"}" * LEVELS
    return (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%b","managedFields":[{"manager":"x","operation":"Update",'
        b'"apiVersion":"v1","fieldsType":"FieldsV1","time":"2026-01-01T00:00:00Z","fieldsV1":%b}]},'
        b'"spec":{"containers":[{"name":"c","image":"i"}]}}'
    ) % (name.encode(), fields)


async def test_a_pod_as_deep_as_kube_apiserver_keeps_is_read_from_list_and_watch(control_plane: ControlPlane) -> None:
    """Its managedFields are its author's: one such pod must not stop the lists and watches that it is in."""
    picture = Picture()
    reflector = Reflector(
        control_plane.client,
        PODS,
        picture,
        decode=POD.read,
        selector=Selector(namespace="default"),
        clock=SystemClock(),
    )
    await _create(control_plane, "listed")
    async with running(reflector.run(), "the reflector"):
        await picture.shows("listed")
        await _create(control_plane, "watched")
        await picture.shows("listed", "watched")
    assert (reflector.counters["failures"], reflector.counters["undecodable"]) == (0, 0)


async def _create(control_plane: ControlPlane, name: str) -> None:
    url = f"{control_plane.url}/api/v1/namespaces/default/pods"
    headers = {"Content-Type": "application/json"}
    async with control_plane.http.post(url, data=deep_pod(name), headers=headers) as answer:
        body = await answer.read()
    assert answer.status == 201, body[:500]
    # Otherwise the test shows nothing: the server kept what the author wrote.
    assert body.count(b'"f:a"') > LEVELS // 2
