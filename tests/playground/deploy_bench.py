"""An admin's machine with both packages, for tests of their scripts: real kubectl and helm, stand-ins for the rest."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gcushare.vendors import ENFLAME
from tests.charts import DEPLOY
from tests.playground.deploy_rig import CONTROL_PLANE, Outcome, Site, control_plane_node, put_image_tool, started_site

PLUGIN, EXTENDER = "gcushare-device-plugin", "gcushare-scheduler-extender"
LABEL = ENFLAME.label_key


@dataclass
class Bench:
    """A copy of the packages, an admin's machine with a stand-in image tool, and a cluster of two nodes."""

    site: Site
    root: Path

    async def run(self, package: str, script: str, *words: str, stdin: str = "") -> Outcome:
        tools = {
            "PATH": f"{self.root / 'bin'}:{self.site.environment()['PATH']}",
            "IMAGE_TOOL_LOG": str(self.root / "calls"),
            "IMAGE_TOOL_FAILS": str(self.root / "failures"),
        }
        return await self.site.run(self.package(package) / script, *words, stdin=stdin, **tools)

    def package(self, name: str) -> Path:
        return self.root / "deploy" / name / "build-and-deploy"

    def fail_once(self, *calls: str) -> None:
        """Have the image tool fail at the next call that contains these words, once for each."""
        (self.root / "failures").write_text("\n".join(calls))

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def give_image(self, name: str) -> None:
        """Put an image file that says nothing of its name."""
        images = self.package(name) / "images"
        images.mkdir()
        (images / f"{name}.tar").write_bytes(b"an image")

    def image_ids(self, tool: str) -> dict[str, str]:
        """The images that an image tool has: ids by name."""
        found: dict[str, str] = json.loads((self.root / f"{tool}-images.json").read_text())
        return found

    def labelled(self, key: str = LABEL) -> set[str]:
        """The nodes that have a label with the value true."""
        nodes = self.site.server.store.list("nodes")
        return {node["metadata"]["name"] for node in nodes if node["metadata"].get("labels", {}).get(key) == "true"}

    def put_tool(self, name: str, script: str) -> None:
        """Put a program before those of the same name on the admin's PATH: a shell script."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)


def in_order(text: str, lines: Sequence[str]) -> bool:
    """Whether the lines stand in the text, in this order."""
    place = 0
    for line in lines:
        place = text.find(line, place)
        if place < 0:
            return False
        place += len(line)
    return True


@asynccontextmanager
async def started_bench(folder: Path) -> AsyncIterator[Bench]:
    """Copy the packages into the folder and serve a cluster of two nodes, one of the control plane."""
    shutil.copytree(DEPLOY, folder / "deploy", symlinks=True, ignore=shutil.ignore_patterns("images"))
    put_image_tool(folder / "bin", "docker", "ctr")
    (folder / "home").mkdir()
    async with started_site(folder / "home") as site:
        site.server.registry.put(control_plane_node("n1"))
        worker = control_plane_node("n2")
        del worker["metadata"]["labels"][CONTROL_PLANE]
        site.server.registry.put(worker)
        yield Bench(site, folder)
