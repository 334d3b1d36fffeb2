"""Build the manual's two packages. Each one works alone on a machine without a network.

    python -m scripts.packages OUT [--images DIR] [--single-files DIR]

Writes gcushare-device-plugin_VERSION.tar.gz and gcushare-scheduler-extender_VERSION.tar.gz. In each: build-image.sh,
deploy.sh, delete.sh and what they need, the chart, the examples, the sources that an image is built from, and a script
for each program that runs it from the image. If they are given, the image (``images/NAME.tar``), the single files of
the inspect commands and the executables are in it too. The extender's package also has the plain files of gpushare's
own instructions, which name the images of both packages.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gcushare._version import __version__
from scripts import archives

ROOT = Path(__file__).parents[1]
PACKAGES = ("gcushare-device-plugin", "gcushare-scheduler-extender")
SHARED = (
    "deploy/lib",
    "deploy/image",
    "src/gcushare",
    "pyproject.toml",
    "constraints.txt",
    "hashes.txt",
    "LICENSE",
    ".dockerignore",
)
"""Paths that the scripts expect. Three levels up is the root from which an image is built."""
PLAIN_FILES = ROOT / "deploy/manifests/gpushare"
INSPECT = ("kubectl-inspect-gcushare", "kubectl-inspect-gpushare")
_LEFT_OUT = ("__pycache__", ".loaded")
_FROM_IMAGE = "from-image"
"""The folder of the inspect commands that run from the image; those of the single files lie next to the scripts."""


def main() -> int:
    """Write both packages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="directory of the packages")
    parser.add_argument("--images", type=Path, help="directory with NAME.tar of each image")
    parser.add_argument("--single-files", type=Path, help="directory with the single files, and the executables")
    given = parser.parse_args()
    needed = [given.images / f"{name}.tar" for name in PACKAGES] if given.images is not None else []
    needed += [given.single_files / name for name in INSPECT] if given.single_files is not None else []
    if missing := [str(path) for path in needed if not path.is_file()]:
        parser.error(f"there is no {', no '.join(missing)}; build-image.sh makes images, make single-files the others")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        print(pack(name, given.out, given.images, given.single_files))  # noqa: T201 - what was made
    return 0


def pack(name: str, out: Path, images: Path | None, single_files: Path | None) -> Path:
    """Write one package: the manual's folder on top, the sources of its image in a folder of their own."""
    top = f"{name}_{__version__}"
    files: dict[str, tuple[bytes, bool]] = {}

    def add(path: Path, at: str) -> None:
        files[f"{top}/{at}"] = path.read_bytes(), os.access(path, os.X_OK)

    own = ROOT / "deploy" / name / "build-and-deploy"
    for path in files_of(own):
        add(path, str(path.relative_to(own)))
    for each in SHARED:
        for path in files_of(ROOT / each):
            add(path, f"source/{path.relative_to(ROOT)}")
    for program, at in programs_of(name):
        files[f"{top}/{at}"] = image_command(program, name).encode(), True
    if images is not None:
        add(images / f"{name}.tar", f"images/{name}.tar")
    if name == "gcushare-scheduler-extender":
        for path in files_of(PLAIN_FILES):
            text = with_image_names(path.read_text())
            files[f"{top}/gpushare/{path.relative_to(PLAIN_FILES)}"] = text.encode(), False
        if single_files is not None:
            for path in (*map(single_files.joinpath, INSPECT), *single_files.glob("gcushare-linux-*")):
                add(path, path.name)
    target = out / f"{top}.tar.gz"
    archives.write(target, files)
    return target


def programs_of(name: str) -> Iterator[tuple[str, str]]:
    """The programs of a package's image that have a script, each with the script's place in the package."""
    yield name, name
    if name == "gcushare-scheduler-extender":
        yield "gcushare-config-manager", "gcushare-config-manager"
        for each in INSPECT:
            yield each, f"{_FROM_IMAGE}/{each}"


def image_command(program: str, name: str) -> str:
    """The script that runs a program from a package's image."""
    facts = {
        "name": program,
        "shown": program.replace("kubectl-inspect-", "kubectl inspect "),
        "version": __version__,
        "image": name,
        "repository": image_value(name, "repository"),
        "tag": image_tag(name),
    }
    text = Path(__file__).with_name("image_command.sh").read_text()
    return re.sub("@([a-z]+)@", lambda found: facts[found[1]], text)


def image_value(name: str, key: str) -> str:
    """``image.KEY`` in the values of a package's chart: a fork changes the repository, a release the tag."""
    values = (ROOT / "deploy" / name / "build-and-deploy" / f"{name}-chart/values.yaml").read_text()
    found = re.search(rf"^image:\n(?:  .*\n)*?  {key}: *\"?([^\"\s]*)", values, re.MULTILINE)
    if found is None:
        raise SystemExit(f"the values of {name}-chart have no image.{key}")
    return found[1]


def image_tag(name: str) -> str:
    """The tag of a package's image; if its values have none it is the version, as in the chart."""
    return image_value(name, "tag") or f"v{__version__}"


def with_image_names(text: str) -> str:
    """Have a plain manifest name the images of the packages: it was rendered for this repository's own."""
    for name in PACKAGES:
        image = f"{image_value(name, 'repository')}/{name}:{image_tag(name)}"
        text = re.sub(rf"[\w.:/-]+/{name}:[\w.-]+", image, text)
    return text


def files_of(place: Path) -> Iterator[Path]:
    """A file itself, or every file below a directory, in order; images that were built here are given apart."""
    if place.is_file():
        yield place
        return
    for path in sorted(place.rglob("*")):
        if path.is_file() and not any(part in _LEFT_OUT for part in path.parts) and path.parent.name != "images":
            yield path


if __name__ == "__main__":
    sys.exit(main())
