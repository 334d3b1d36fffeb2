"""Build kubectl-inspect-gcushare and kubectl-inspect-gpushare as single executable files.

    python -m scripts.single_files OUT                     for the Python and machine that run here
    python -m scripts.single_files OUT --all               for every Python and machine of RELEASED
    python -m scripts.single_files OUT --packages DIR      of packages that are installed in DIR already

Each file is a zip archive that Python starts (shiv): it unpacks itself once below ~/.shiv and needs nothing but Python.
An older Python prints what it needs instead, in one line, and unpacks nothing. Of its libraries msgspec and aiohttp are
compiled; their files carry Python's and the machine's names, so that those for several lie side by side. What the
extra "server" names is not in it: no gRPC, no vendor's library.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
COMMANDS = ("kubectl-inspect-gcushare", "kubectl-inspect-gpushare")
RELEASED = tuple(
    (python, platform)
    for python in ("3.11", "3.12", "3.13", "3.14")
    for platform in ("manylinux2014_x86_64", "manylinux2014_aarch64", "macosx_11_0_arm64")
)
CHECK = """\
import sys
if "%d.%d" % sys.version_info[:2] not in {pythons!r}:
    sys.stderr.write(
        "error: {command} needs Python {listed}, and %s is %d.%d: start it as 'python{newest} {command}' if that is "
        "installed, or take the release's gcushare-linux-amd64 or gcushare-linux-arm64, which need no Python\\n"
        % ((sys.executable,) + sys.version_info[:2])
    )
    sys.exit(1)
"""
"""What an archive runs first. Python 2.7 and every Python 3 read it."""


def main() -> int:
    """Build both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="directory of the files")
    parser.add_argument("--all", action="store_true", help="for every Python and machine that is released for")
    parser.add_argument("--packages", type=Path, help="a directory in which project and libraries are installed")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="single-files-") as folder:
        packages = given.packages or install_packages(Path(folder), every=given.all)
        pythons = sorted({python for python, _ in RELEASED}) if given.all else [RUNNING]
        for command in COMMANDS:
            print(build(command, packages, given.out, pythons))  # noqa: T201 - what a builder says is what it made
    return 0


def install_packages(folder: Path, *, every: bool) -> Path:
    """Install the project and its libraries into one directory, with the compiled files of all targets."""
    packages = folder / "packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", "--target", packages, ROOT], check=True)
    pinned: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    constraints = ["--no-compile", "--constraint", str(ROOT / "constraints.txt"), *pinned]
    if not every:
        subprocess.run([*pip, "install", "--upgrade", "--target", str(packages), *constraints], check=True)
        return packages
    for number, (python, platform) in enumerate(RELEASED):
        part = folder / str(number)
        words = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--platform={platform}"]
        subprocess.run([*pip, "install", "--target", str(part), *words, *constraints], check=True)
        shutil.copytree(part, packages, dirs_exist_ok=True)
    return packages


def build(command: str, packages: Path, out: Path, pythons: Sequence[str] = (RUNNING,)) -> Path:
    """Build one file; ``pythons`` are the versions that it has compiled libraries for, oldest first."""
    target = out / command
    words = ["--site-packages", str(packages), "--console-script", command]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1735689600")}
    shiv = Path(sys.executable).with_name("shiv")
    subprocess.run(
        [str(shiv), *words, "--compressed", "--reproducible", "--output-file", str(target)], check=True, env=environ
    )
    listed = pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"
    check = CHECK.format(command=command, pythons=tuple(pythons), listed=listed, newest=pythons[-1])
    _put_first(target, check.encode())
    target.chmod(0o755)
    return target


def _put_first(target: Path, code: bytes) -> None:
    """Have an archive run this code before its own: shiv offers a place for code only after it has unpacked."""
    with zipfile.ZipFile(target) as built:
        entries = [(each, built.read(each)) for each in built.infolist()]
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for entry, content in entries:
                archive.writestr(entry, code + content if entry.filename == "__main__.py" else content)


if __name__ == "__main__":
    sys.exit(main())
