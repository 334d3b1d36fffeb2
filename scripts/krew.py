"""Write the krew manifests of the inspect commands: python -m scripts.krew OUT BASE-URL FILES-DIR.

Each names the release's archives at BASE-URL with their checksums; the archives are written to the same folder. On
Linux an archive holds the executable of the machine, if FILES-DIR has it, else the single file, as on macOS.
"""

from __future__ import annotations

import argparse
import gzip
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
  shortDescription: Show which pods use which cards, and why a pod waits
  description: |
    Shows nodes whose {word} cards are shared by memory: how much of each card is granted, to which pods, and how
    much is used. 'explain POD' says why a pod has no card; 'top' compares what is granted with what is used.
  caveats: |
    {caveats}
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
    if missing := [str(given.files / name) for name in COMMANDS if not (given.files / name).is_file()]:
        parser.error(f"there is no {' and no '.join(missing)}; make single-files makes them")
    given.out.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        print(write(command, given.out, given.base, given.files))  # noqa: T201 - what was made
    return 0


def write(command: str, out: Path, base: str, files: Path) -> Path:
    """Write one command's archives and manifest; krew's names for kubectl's plugins have dashes.

    krew starts the file by a link that has the command's name, so the executable needs no other name.
    """
    platforms, python_on = "", []
    for os, arch in _PLATFORMS:
        file = files / f"gcushare-{os}-{arch}"
        if not file.exists():
            file = files / command
            python_on.append({"linux": "Linux", "darwin": "macOS"}[os])
        archive = _pack(file, out)
        facts = {"base": base, "archive": archive.name, "command": file.name}
        facts["sha256"] = hashlib.sha256(archive.read_bytes()).hexdigest()
        platforms += _PLATFORM.format(os=os, arch=arch, **facts)
    name = command.removeprefix("kubectl-")
    manifest = out / f"{name}.yaml"
    described = {
        "home": base.partition("/releases/")[0],
        "word": "GCU" if name.endswith("gcushare") else "GPU",
        "caveats": f"On {' and '.join(dict.fromkeys(python_on))} it needs Python 3.11 to 3.14 on the PATH, as python3.",
    }
    manifest.write_text(_MANIFEST.format(name=name, version=__version__, platforms=platforms, **described))
    return manifest


def _pack(file: Path, out: Path) -> Path:
    archive = out / f"{file.name}_{__version__}.tar.gz"
    # Both commands name the archive of an executable: the second time the same bytes must come out.
    with gzip.GzipFile(archive, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as made:
        content = file.read_bytes()
        entry = tarfile.TarInfo(file.name)
        entry.size, entry.mode = len(content), 0o755
        made.addfile(entry, io.BytesIO(content))
    return archive


if __name__ == "__main__":
    sys.exit(main())
