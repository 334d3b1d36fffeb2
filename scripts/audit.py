"""Audit what the programs are made of, without asking any service: `make audit`.

Looked at are the distributions that the programs need at run time, and what those need in turn. Each must be installed
in the version that constraints.txt pins, under a license that may be handed out with an image, and every file of it
must still be the one that its wheel listed. The target also has ruff check our own source for unsafe calls.

Known vulnerabilities are in no offline source: `--known-vulnerabilities` asks pip-audit, which needs a network.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent

LICENSES = ("apache", "bsd", "mit", "isc", "psf", "python software foundation", "mpl-2.0", "mozilla public license 2.0")
"""Words of licenses that allow an image to be handed out; a distribution needs one of them."""


def runtime_distributions(name: str = "gcushare") -> dict[str, Distribution]:
    """The distributions that a program loads, by canonical name: what ``name`` requires without extras, followed down.

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
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
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


def find_problems(found: dict[str, Distribution], pins: dict[str, str]) -> Iterator[str]:
    """What is not as it should be, a sentence each."""
    for name, dist in sorted(found.items()):
        if name not in pins:
            yield f"{name} {dist.version} is needed at run time and not pinned in constraints.txt"
        elif pins[name] != dist.version:
            yield f"{name} is installed as {dist.version}, pinned is {pins[name]}: run make install"
        if not _may_be_handed_out(dist):
            yield f"{name} has the license {license_of(dist)!r}; accepted are {', '.join(LICENSES)}"
        yield from (f"{name}: {file} is not the file that its wheel brought" for file in changed_files(dist))


def license_of(dist: Distribution) -> str:
    """A distribution's license: its expression, its classifiers, or its free text, whichever there is."""
    metadata = dist.metadata
    for expression in metadata.get_all("License-Expression") or ():
        return str(expression)
    classifiers = [entry for entry in metadata.get_all("Classifier") or () if entry.startswith("License ::")]
    texts = [str(text).partition("\n")[0] for text in metadata.get_all("License") or ()]
    return "; ".join(classifiers or texts) or "unknown"


def changed_files(dist: Distribution) -> list[str]:
    """Files whose bytes are not those that the wheel's RECORD lists, or that are gone."""
    changed = []
    for file in dist.files or ():
        if file.hash is None or file.parts[0] == "..":
            continue  # RECORD itself, and what was compiled or generated on this machine, such as commands in bin.
        try:
            digest = hashlib.new(file.hash.mode, Path(str(file.locate())).read_bytes()).digest()
        except FileNotFoundError:
            digest = b""
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            changed.append(str(file))
    return changed


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
    problems = list(find_problems(found, read_pins((ROOT / "constraints.txt").read_text())))
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
