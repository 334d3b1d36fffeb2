"""What a stock kubectl creates itself, in protobuf from 1.32 on, against the API server double."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.objects import JsonObject
from tests.protocol.commands import run_program
from tests.unit.apiserver_objects import pod

KUBECTL = shutil.which("kubectl") or ""
pytestmark = pytest.mark.skipif(not KUBECTL, reason="no kubectl in PATH")


@dataclass(frozen=True, slots=True)
class Kubectl:
    words: tuple[str, ...]

    async def show(self, *words: str) -> JsonObject:
        """Run it, and read the JSON that it prints."""
        ran = await run_program(*self.words, *words)
        assert ran.code == 0, ran.err
        return ran.document if ran.out else {}


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    server = ApiServer(ApiServerConfig())
    await server.start()
    file = server.kubeconfig(tmp_path / "kubeconfig")
    yield Kubectl((KUBECTL, "--kubeconfig", str(file), "--cache-dir", str(tmp_path / "cache")))
    await server.stop()


def lacking(wanted: object, found: object, at: str = "") -> list[str]:
    """What ``found`` has not, or has otherwise; what it has in addition is the server's."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [text for key in wanted for text in lacking(wanted[key], found.get(key), f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [text for place, pair in pairs for text in lacking(*pair, f"{at}[{place}]")]
    return [] if wanted in (None, found) else [f"{at}: {found!r}, not {wanted!r}"]


@pytest.mark.parametrize(
    "words",
    [
        ("deployment", "a", "--image=app:1", "--replicas=2", "--port=80"),
        ("secret", "generic", "a", "--from-literal=a=b"),
        ("service", "loadbalancer", "a", "--tcp=80:web"),
        ("quota", "a", "--hard=pods=1,requests.enflame.com/gcu-memory=4"),
        ("poddisruptionbudget", "a", "--selector=a=b", "--min-available=0"),
    ],
    ids=lambda words: words[0],
)
async def test_what_it_creates_is_what_it_says_that_it_creates(kubectl: Kubectl, words: tuple[str, ...]) -> None:
    said = await kubectl.show("create", *words, "--dry-run=client", "-o", "json")
    assert lacking(said, await kubectl.show("create", *words, "-o", "json")) == []


async def test_a_copy_of_a_pod_for_debugging_is_like_the_pod(kubectl: Kubectl, tmp_path: Path) -> None:
    source = pod("a")
    source["spec"] |= {"nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 0, "hostPID": True}
    (tmp_path / "pod.json").write_text(json.dumps(source))
    made = await kubectl.show("create", "-f", str(tmp_path / "pod.json"), "-o", "json")
    image = made["spec"]["containers"][0]["image"]
    await kubectl.show("debug", "a", "--copy-to=b", f"--set-image=*={image}", "-q")
    copy = await kubectl.show("get", "pod", "b", "-o", "json")
    assert copy["spec"] == made["spec"]
