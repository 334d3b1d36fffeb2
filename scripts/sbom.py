"""List what an image is made of, as CycloneDX: Python, its packages, and the Debian packages of its libraries.

    python -m scripts.sbom OUT IMAGE...

IMAGE is a saved image of gcushare-scheduler-extender (``docker save``, or ``images/NAME.tar`` of build-image.sh); the
plugin's image and the executables hold the same. Its machine is the file's: sbom-linux-amd64.json in OUT. The same
image gives the same list.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

from gcushare._version import __version__
from scripts.executables import Image, check_machines, read_image

Component = dict[str, object]

_DISTRIBUTION = re.compile(r"usr/local/lib/.*-packages/[^/]+\.dist-info/METADATA")
_DEBIAN = re.compile(r"var/lib/dpkg/status\.d/[^/]+")
_PYTHON = re.compile(r"usr/local/bin/python(3\.\d+)")


def main() -> int:
    """Write one list for each image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="directory of the lists")
    parser.add_argument("images", type=Path, nargs="+", help="saved images, one for each machine")
    given = parser.parse_args()
    images = {file: read_image(file) for file in given.images}
    check_machines(images)
    given.out.mkdir(parents=True, exist_ok=True)
    for each in images.values():
        target = given.out / f"sbom-linux-{each.machine}.json"
        target.write_text(json.dumps(describe(each), indent=2, ensure_ascii=False) + "\n")
        print(target)  # noqa: T201 - a builder prints what it made
    return 0


def describe(image: Image) -> Mapping[str, object]:
    """The document of one image."""
    made = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "1735689600")), UTC)
    files = {path: content for path, (_, content) in image.entries.items()}
    found = [python_of(files), *distributions(files), *debian_packages(files)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "name": "gcushare", "version": __version__},
        },
        "components": sorted(found, key=lambda each: str(each["purl"])),
    }


def python_of(files: Mapping[str, bytes]) -> Component:
    """CPython itself, which no package manager of the image knows: its version stands in its bytes."""
    ((path, minor),) = ((path, found[1]) for path in files if (found := _PYTHON.fullmatch(path)))
    libraries = [content for name, content in files.items() if "/libpython" in name]
    # A linker may have merged it with a longer text that ends in it.
    version = re.compile(rb"(?<![\d.])(%b\.\d+)\x00" % re.escape(minor.encode()))
    for content in (*libraries, files[path]):
        if (written := version.search(content)) is not None:
            number = written[1].decode()
            cpe = f"cpe:2.3:a:python:python:{number}:*:*:*:*:*:*:*"
            return _component("python", number, f"pkg:generic/python@{number}", "PSF-2.0") | {"cpe": cpe}
    raise SystemExit(f"the image's {path} and its libpython name no version {minor}.N")


def distributions(files: Mapping[str, bytes]) -> Iterator[Component]:
    """The Python packages, this project among them."""
    for content in (content for path, content in files.items() if _DISTRIBUTION.fullmatch(path)):
        about = BytesParser(policy=compat32).parsebytes(content, headersonly=True)
        name, version = str(about["Name"]), str(about["Version"])
        classifiers = [each for each in about.get_all("Classifier", ()) if each.startswith("License ::")]
        texts = (about["License-Expression"], *(each.rpartition(":: ")[2] for each in classifiers), about["License"])
        licence = next((str(each).partition("\n")[0] for each in texts if each), "")
        yield _component(name, version, f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}", licence)


def debian_packages(files: Mapping[str, bytes]) -> Iterator[Component]:
    """The packages of the C library, OpenSSL and the others that make-root.sh found."""
    release = dict(line.split("=", 1) for line in files.get("etc/os-release", b"").decode().splitlines() if "=" in line)
    distro = f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', '').strip(chr(34))}"
    for content in (content for path, content in files.items() if _DEBIAN.fullmatch(path)):
        about = BytesParser(policy=compat32).parsebytes(content, headersonly=True)
        name, version, machine = (str(about[key]) for key in ("Package", "Version", "Architecture"))
        url = f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch={machine}&distro={distro}"
        yield _component(name, version, url, f"usr/share/doc/{name}/copyright")


def _component(name: str, version: str, purl: str, licence: str) -> Component:
    found: Component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return found | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


if __name__ == "__main__":
    sys.exit(main())
