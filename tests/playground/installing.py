"""This project and its libraries in a folder, as pip would put them there, and as an image; without a registry."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.charts import DEPLOY, ROOT

EPOCH = 1_700_000_000
"""The time that the image's files have."""


def build_image(folder: Path) -> None:
    """Make the root of the images in ``root``, by the same script as the Dockerfile."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = install(folder, [*project["dependencies"], *project["optional-dependencies"]["server"]])
    environment = {**os.environ, "PYTHON": sys.executable}
    words = ["sh", str(DEPLOY / "image/make-root.sh"), str(packages), str(folder / "root"), str(EPOCH)]
    subprocess.run(words, env=environment, check=True, timeout=120)


def save_image(root: Path, file: Path, machine: str) -> None:
    """Write a root as ``docker save`` would write the image."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.add(root, ".")
    write_saved_image(file, machine, [layer.getvalue()])


def write_saved_image(file: Path, machine: str, layers: Iterable[bytes]) -> None:
    """Write layers, lowest first, as ``docker save`` would."""
    parts = {f"{number}/layer.tar": layer for number, layer in enumerate(layers)}
    manifest = [{"Config": "config.json", "RepoTags": ["registry.local/image:v1"], "Layers": list(parts)}]
    parts["config.json"] = json.dumps({"architecture": machine}).encode()
    parts["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(file, "w") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def install(folder: Path, dependencies: Iterable[str]) -> Path:
    """Install the project and copy what it depends on from this environment; returns the folder of the packages.

    The source is what the Dockerfile copies, so that it is known to be enough.
    """
    packages, source = folder / "packages", folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-compile", "--target", packages, source], check=True, timeout=120)
    for name in _closure(dependencies):
        _copy_installed(name, packages)
    return packages


def _closure(dependencies: Iterable[str]) -> Iterator[str]:
    """The names of these requirements, and of what they need at runtime, as they are installed here."""
    wanted = [re.split(r"[=<>\[; ]", each, maxsplit=1)[0] for each in dependencies]
    seen: set[str] = set()
    while wanted:
        each = wanted.pop()
        if each.lower() in seen:
            continue
        seen.add(each.lower())
        try:
            requires = importlib.metadata.requires(each) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another Python or system
        yield each
        wanted += [re.split(r"[=<>!~\[;( ]", need, maxsplit=1)[0] for need in requires if "extra ==" not in need]


def _copy_installed(name: str, packages: Path) -> None:
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(distribution.locate_file(file)), target)
