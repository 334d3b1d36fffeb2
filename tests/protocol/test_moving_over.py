"""The commands of docs/moving-over.md, played against other systems' objects: afterwards the plugin takes the node.

Helm and the other systems' DaemonSets are played as far as they matter here: an uninstall deletes the objects of its
release, a DaemonSet serves on a node only while it exists and selects the node.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.api_objects import delete, listed, merge_into
from tests.documents import guide
from tests.neighbours import read_objects
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.test_plugin_neighbours import put_neighbour

RELEASE = "meta.helm.sh/release-name"
KINDS = ("DaemonSet", "Deployment", "MutatingWebhookConfiguration", "ResourceSlice", "Pod", "Namespace")


def commands_of(heading: str, resource: str) -> list[list[str]]:
    """The words of each command in the section's indented block that names ``resource``."""
    text = guide("moving-over.md").text
    section = text[text.index(f"## {heading}\n") :].split("\n## ")[0]
    blocks = re.findall(r"(?m)(?:^ {4,7}(?:kubectl|helm) .*\n(?: {6,9}--.*\n)*)+", section)
    (block,) = [found for found in blocks if resource in found]
    return [shlex.split(line) for line in block.replace("\\\n", "").splitlines()]


class Neighbourhood:
    """One other system on the rig's node; ``serving`` is its plugin, if it has one."""

    def __init__(self, rig: PluginRig, name: str) -> None:
        self.rig, self.name = rig, name
        _, *self.objects = read_objects(name)
        self._stack = AsyncExitStack()

    async def arrive(self) -> None:
        await put_neighbour(self.rig, self._stack, self.name)

    async def play(self, words: list[str]) -> None:
        """Do what one command does, then what the DaemonSets make of it."""
        match words:
            case ["kubectl", "label" | "annotate" as verb, kind, _, *changes]:
                field = "labels" if verb == "label" else "annotations"
                values = dict(_change(each) for each in changes if each != "--overwrite")
                place = ("Node", NODE) if kind == "node" else ("Namespace", "default")
                merge_into(self.rig.api, *place, {"metadata": {field: values}})
            case ["helm", "uninstall", release, "-n", _]:
                self._delete([each for each in self._stored() if _annotations(each).get(RELEASE) == release])
            case ["helm", "upgrade", release, *_, "resources.gpus.enabled=false"]:
                self._delete([each for each in self._stored("DaemonSet") if _annotations(each).get(RELEASE) == release])
            case _:
                raise AssertionError(f"no rule here plays {words}")
        await self._reconcile()

    def _stored(self, *kinds: str) -> Iterator[dict[str, Any]]:
        for kind in kinds or KINDS:
            yield from listed(self.rig.api, kind)

    def _delete(self, objects: list[dict[str, Any]]) -> None:
        assert objects, "the release has objects"
        for each in objects:
            delete(self.rig.api, each["kind"], each["metadata"]["name"], each["metadata"].get("namespace", ""))

    async def _reconcile(self) -> None:
        """End what no DaemonSet runs here any more: its resource turns 0, its slices go."""
        labels = self.rig.node()["metadata"].get("labels", {})
        for given in (each for each in self.objects if each["kind"] == "DaemonSet"):
            stored = [
                each for each in self._stored("DaemonSet") if each["metadata"]["name"] == given["metadata"]["name"]
            ]
            wanted = given["spec"]["template"]["spec"].get("nodeSelector", {})
            if stored and wanted.items() <= labels.items():
                continue
            await self._stack.aclose()
            served = _annotations(given)["serves"]
            slices = [each for each in self._stored("ResourceSlice") if each["spec"]["driver"] == served]
            if slices:
                self._delete(slices)
            elif "/" in served:
                none = {"capacity": {served: "0"}, "allocatable": {served: "0"}}
                merge_into(self.rig.api, "Node", NODE, {"status": none}, status_only=True)
            for key in _annotations(given).get("removes", "").split():
                self.rig.annotate_node(key, None)


def _change(word: str) -> tuple[str, str | None]:
    key, is_set, value = word.partition("=")
    return (key, value) if is_set else (key.removesuffix("-"), None)


def _annotations(each: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = each["metadata"].get("annotations", {})
    return found


@pytest.mark.parametrize(
    ("name", "vendor", "heading", "resource"),
    [
        pytest.param("enflame-gcushare", ENFLAME, "From Enflame's gcushare 3.6", "gcu-shared-capacity", id="Enflame"),
        pytest.param("hami-nvidia", ALIYUN, "From HAMi", "gpushare=true", id="HAMi on NVIDIA"),
        pytest.param("hami-enflame", ENFLAME, "From HAMi", "hami.io/webhook", id="HAMi on Enflame"),
        pytest.param("vgpu-manager", ALIYUN, "From vgpu-manager", "vgpu-manager-", id="vgpu-manager"),
        pytest.param(
            "nvidia-device-plugin",
            ALIYUN,
            "From NVIDIA's device plugin or GPU Operator",
            "deploy.device-plugin",
            id="GPU Operator",
        ),
        pytest.param("kai", ALIYUN, "From KAI-Scheduler", "deploy.device-plugin", id="KAI"),
        pytest.param(
            "nvidia-dra", ALIYUN, "From NVIDIA's DRA driver", "resources.gpus.enabled", id="NVIDIA's DRA driver"
        ),
    ],
)
async def test_after_the_documented_commands_the_plugin_takes_the_node(
    name: str, vendor: Vendor, heading: str, resource: str
) -> None:
    async with PluginRig(cards=(16, 16), plugin={"vendor": vendor}, plugin_first=False) as rig:
        neighbourhood = Neighbourhood(rig, name)
        await neighbourhood.arrive()
        await rig.start_plugin()
        await rig.until(lambda: "--other-systems allow" in rig.problem("registration"), "it stands back")
        for words in commands_of(heading, resource):
            await neighbourhood.play(words)
        await rig.until_allocatable(vendor.memory_resource, 32)
        await rig.until(lambda: rig.problem("registration") == "", "its status has nothing to say")
        labels = rig.node()["metadata"]["labels"]
        key, _, value = vendor.node_label.partition("=")
        assert labels[key] == value, "our DaemonSet selects the node"
