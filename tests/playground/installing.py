"""This project and its libraries in a folder, as pip would put them there, without a registry."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.charts import ROOT


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
