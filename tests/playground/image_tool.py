#!/usr/bin/env python3
"""A stand-in for docker, podman and ctr: it remembers images by name and id, and saves and loads them as docker does.

It is linked under these names. The folder of ``IMAGE_TOOL_LOG`` holds its state: that file gets one line per call,
``TOOL-images.json`` what a tool has. A call fails as often as ``IMAGE_TOOL_FAILS``, a file, has lines that it contains.
docker is the CLI 28 of Linux distributions, without the plugin buildx unless there is a file ``buildx``.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path


class Refusal(Exception):
    """What the tool prints on stderr before it exits with 1."""


def _fails(line: str) -> bool:
    plan = Path(os.environ["IMAGE_TOOL_FAILS"])
    left = plan.read_text().splitlines() if plan.exists() else []
    for number, part in enumerate(left):
        if part and part in line:
            plan.write_text("\n".join(left[:number] + left[number + 1 :]))
            return True
    return False


def _archive(name: str, image_id: str) -> bytes:
    manifest = json.dumps([{"Config": f"{image_id}.json", "RepoTags": [name], "Layers": []}]).replace(": ", ":")
    entry = tarfile.TarInfo("manifest.json")
    entry.size = len(manifest)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(manifest.encode()))
    return buffer.getvalue()


def _saved_name(file: Path) -> str:
    if not tarfile.is_tarfile(file):
        return "unnamed"
    with tarfile.open(file) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        name: str = json.load(manifest)[0]["RepoTags"][0]
        return name


class Store:
    """The images of one tool: ids by name; an image that lost its name stays under its id."""

    def __init__(self, folder: Path, tool: str) -> None:
        self._file = folder / f"{tool}-images.json"
        self._ids: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def _write(self) -> None:
        self._file.write_text(json.dumps(self._ids))

    def find(self, name: str) -> str:
        if name not in self._ids:
            raise Refusal(f"Error: No such image: {name}\n")
        return self._ids[name]

    def add(self, name: str) -> str:
        former = self._ids.get(name)
        if former is not None:
            self._ids[former] = former
        made = f"sha256:{len(self._ids):064x}"
        self._ids[name] = made
        self._write()
        return made

    def remove(self, image_id: str) -> str:
        names = [name for name, each in self._ids.items() if each == image_id]
        if not names:
            raise Refusal(f"Error: No such image: {image_id}\n")
        for name in names:
            del self._ids[name]
        self._write()
        return f"Deleted: {image_id}\n"


def _run(folder: Path, tool: str, arguments: Sequence[str]) -> str:
    has_buildx = (folder / "buildx").exists()
    images = Store(folder, tool)
    match [tool, *arguments]:
        case ["docker", "buildx", "version"] if not has_buildx:
            raise Refusal("docker: unknown command: docker buildx\n")
        case ["docker", "build", *_] if os.environ["DOCKER_BUILDKIT"] != str(int(has_buildx)):
            raise Refusal("ERROR: BuildKit is enabled but the buildx component is missing, or the other way round\n")
        case [_, "build", *rest]:
            name = rest[rest.index("--tag") + 1]
            images.add(name)
            return f"Successfully tagged {name}\n"
        case [_, "image", "inspect", "--format", _, name]:
            return images.find(name) + "\n"
        case [_, "rmi", image_id]:
            return images.remove(image_id)
        case [_, "save", *rest]:
            Path(rest[rest.index("--output") + 1]).write_bytes(_archive(rest[-1], images.find(rest[-1])))
        case [_, "load", "--input", file]:
            images.add(_saved_name(Path(file)))
    return ""


def main() -> int:
    tool, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    line = " ".join([tool, *arguments])
    log = Path(os.environ["IMAGE_TOOL_LOG"])
    with log.open("a") as file:
        file.write(line + "\n")
    if _fails(line):
        sys.stderr.write(f"{tool}: refused by the test\n")
        return 1
    try:
        sys.stdout.write(_run(log.parent, tool, arguments))
    except Refusal as refused:
        sys.stderr.write(str(refused))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
