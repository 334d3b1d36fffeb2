"""Audit what the programs are made of: `make audit`.

Looked at are the distributions that the programs need at run time, and what those need in turn. Each must be installed
in the version that constraints.txt pins, under a license that may be handed out with an image, and every file of it
must be one of the wheel that hashes.txt names by its hash. Wheels that `.cache/wheels` lacks are downloaded there. The
target also has ruff check our own source for unsafe calls.

Known vulnerabilities are in no offline source: `--known-vulnerabilities` asks pip-audit, which needs a network.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import subprocess
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
WHEELS = ROOT / ".cache" / "wheels"

LICENSES = ("apache", "bsd", "mit", "isc", "psf", "python software foundation", "mpl-2.0", "mozilla public license 2.0")
"""Words of licenses that allow an image to be handed out; a distribution needs one of them."""


def runtime_distributions(name: str = "gcushare") -> dict[str, Distribution]:
    """The distributions that a program loads, by canonical name: what ``name`` requires, its servers too, and so on.

    Raises:
        PackageNotFoundError: one that is required here is not installed; `make install` does it.
    """
    found: dict[str, Distribution] = {}
    wanted = [name]
    while wanted:
        key = canonicalize_name(wanted.pop())
        if key in found:
            continue
        found[key] = distribution(key)
        for text in found[key].requires or ():
            requirement = Requirement(text)
            extra = "server" if key == "gcushare" else ""
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                wanted.append(requirement.name)
    return found


def read_pins(text: str) -> dict[str, str]:
    """Versions by canonical name, of a constraints file of `name==version` lines."""
    pins: dict[str, str] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        name, equals, version = line.partition("==")
        if not equals:
            raise ValueError(f"constraints.txt: {line!r} pins no version; write name==version")
        pins[canonicalize_name(name)] = version
    return pins


def read_hashes(text: str) -> dict[str, frozenset[str]]:
    """The SHA-256 of each file that may be installed, in hexadecimal, by ``name==version``."""
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {
        words[0]: frozenset(each.rpartition(":")[2] for each in words if each.startswith("--hash")) for words in lines
    }


def find_wheels(folder: Path, hashes: Iterable[Collection[str]]) -> list[Path | None]:
    """The wheel in a folder for each set of hashes; None if there is none."""
    by_hash = {hashlib.sha256(each.read_bytes()).hexdigest(): each for each in folder.glob("*.whl")}
    return [next((by_hash[each] for each in sums if each in by_hash), None) for sums in hashes]


def find_problems(
    found: dict[str, Distribution], pins: dict[str, str], wheels: dict[str, Path | None]
) -> Iterator[str]:
    """What is not as it should be, a sentence each; ``wheels`` are those whose hash is pinned, by distribution."""
    for name, dist in sorted(found.items()):
        if name not in pins:
            yield f"{name} {dist.version} is needed at run time and not pinned in constraints.txt"
        elif pins[name] != dist.version:
            yield f"{name} is installed as {dist.version}, pinned is {pins[name]}: run make install"
        if not _may_be_handed_out(dist):
            yield f"{name} has the license {license_of(dist)!r}; accepted are {', '.join(LICENSES)}"
        if (wheel := wheels.get(name)) is None:
            yield f"{name} {dist.version} has no wheel for this Python whose hash hashes.txt has"
        else:
            yield from (f"{name}: {file} is not the file of {wheel.name}" for file in changed_files(dist, wheel))


def license_of(dist: Distribution) -> str:
    """A distribution's license: its expression, its classifiers, or its free text, whichever there is."""
    metadata = dist.metadata
    for expression in metadata.get_all("License-Expression") or ():
        return str(expression)
    classifiers = [entry for entry in metadata.get_all("Classifier") or () if entry.startswith("License ::")]
    texts = [str(text).partition("\n")[0] for text in metadata.get_all("License") or ()]
    return "; ".join(classifiers or texts) or "unknown"


def changed_files(dist: Distribution, wheel: Path) -> list[str]:
    """Files whose bytes are not those of the wheel, that are gone, or that the wheel does not have."""
    with zipfile.ZipFile(wheel) as archive:
        # What installs adds to RECORD, and puts the files of NAME.data into other folders.
        names = {each for each in archive.namelist() if not each.endswith(("/", ".dist-info/RECORD"))}
        names = {each for each in names if ".data/" not in each}
        changed = [each for each in sorted(names) if _read(dist, each) != archive.read(each)]
    here = (str(each) for each in dist.files or () if each.parts[0] != ".." and each.suffix != ".pyc")
    return [*changed, *(each for each in here if each not in names and ".dist-info/" not in each)]


def _read(dist: Distribution, name: str) -> bytes | None:
    try:
        return Path(str(dist.locate_file(name))).read_bytes()
    except FileNotFoundError:
        return None


def _may_be_handed_out(dist: Distribution) -> bool:
    words = license_of(dist).lower()
    return any(re.search(rf"\b{re.escape(word)}", words) for word in LICENSES)


def main() -> None:
    """Print every problem and end with 1 where there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known-vulnerabilities", action="store_true", help="ask pip-audit, which needs a network")
    given = parser.parse_args()
    try:
        found = runtime_distributions()
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed: run make install")
    ours = found.pop("gcushare")
    hashes = read_hashes((ROOT / "hashes.txt").read_text())
    wanted = {name: hashes.get(f"{name}=={dist.version}", frozenset()) for name, dist in found.items()}
    wheels = dict(zip(wanted, find_wheels(WHEELS, wanted.values()), strict=True))
    if None in wheels.values():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
        ]
        subprocess.run([*pip, "--dest", str(WHEELS), "--requirement", str(ROOT / "hashes.txt")], check=True)
        wheels = dict(zip(wanted, find_wheels(WHEELS, wanted.values()), strict=True))
    problems = list(find_problems(found, read_pins((ROOT / "constraints.txt").read_text()), wheels))
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(f"{len(found)} distributions below gcushare {ours.version}: {len(problems)} problems\n")
    if given.known_vulnerabilities:
        if importlib.util.find_spec("pip_audit") is None:
            sys.exit("pip-audit is not installed: .venv/bin/python -m pip install pip-audit")
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "constraints.txt"), "--no-deps"]
        sys.exit(subprocess.run(command, check=False).returncode or bool(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
