"""The API server double compared with kube-apiserver: the same requests get the same answers."""

from __future__ import annotations

import aiohttp

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from tests.e2e.control_plane import ControlPlane
from tests.e2e.conversation import hold

KNOWN = {
    "annotate with a number": "kube-apiserver blames the patch (422) where the double blames the object (400)",
    "no such group": "outside of every API, kube-apiserver answers plain text instead of a Status",
    "delete": "kube-apiserver shows a pod that is deleted at once with a deletion time",
    "end it": "as above",
    "is deleted at once": "as above",
}
"""Where the double differs and may: no client of ours reads these parts of an answer."""


async def test_the_double_answers_as_kube_apiserver_does(control_plane: ControlPlane) -> None:
    real = await hold(control_plane.http, control_plane.url)
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as double, aiohttp.ClientSession() as session:
        doubled = await hold(session, double.url)
    pairs = zip(real, doubled, strict=True)
    different = {words: (answer, other) for (words, answer), (_, other) in pairs if answer != other}
    assert set(different) == set(KNOWN), different
