"""Write the krew manifests of the inspect commands: python -m scripts.krew OUT BASE-URL FILES-DIR.

Each names the release's archive of the single file at BASE-URL with its checksum; the archive is written beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import tarfile
from pathlib import Path

from gcushare._version import __version__
from scripts.single_files import COMMANDS

_MANIFEST = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: {name}
spec:
  version: v{version}
  homepage: {home}
  shortDescription: Who uses which card of which node, and why a pod waits
  description: |
    Shows nodes whose {word} cards are shared by memory: how much of each card is granted, to which pods, and how
    much is used. 'explain POD' says why a pod has no card; 'top' compares what is granted with what is used.
  caveats: |
    Needs Python 3.11 to 3.14 on the PATH, as python3.
  platforms:
{platforms}"""
_PLATFORM = """\
  - selector:
      matchLabels:
        os: {os}
        arch: {arch}
    uri: {base}/{archive}
    sha256: {sha256}
    bin: {command}
"""
_PLATFORMS = (("linux", "amd64"), ("linux", "arm64"), ("darwin", "arm64"))


def main() -> int:
    """Write archives and manifests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("base", help="where the release's files will be, without a slash at the end")
    parser.add_argument("files", type=Path, help="directory with the single files")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        print(write(command, given.out, given.base, given.files))  # noqa: T201 - what was made
    return 0


def write(command: str, out: Path, base: str, files: Path) -> Path:
    """Write one command's archive and manifest; krew's names for kubectl's plugins have dashes."""
    archive = out / f"{command}_{__version__}.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        content = (files / command).read_bytes()
        entry = tarfile.TarInfo(command)
        entry.size, entry.mode = len(content), 0o755
        made.addfile(entry, io.BytesIO(content))
    facts = {"base": base, "archive": archive.name, "command": command}
    facts["sha256"] = hashlib.sha256(archive.read_bytes()).hexdigest()
    platforms = "".join(_PLATFORM.format(os=os, arch=arch, **facts) for os, arch in _PLATFORMS)
    name = command.removeprefix("kubectl-")
    manifest = out / f"{name}.yaml"
    home = base.partition("/releases/")[0]
    word = "GCU" if name.endswith("gcushare") else "GPU"
    manifest.write_text(_MANIFEST.format(name=name, version=__version__, home=home, word=word, platforms=platforms))
    return manifest


if __name__ == "__main__":
    sys.exit(main())
