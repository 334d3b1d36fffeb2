"""Write compressed archives that are the same for the same files.

    python -m scripts.archives CHART.tgz...    write helm's archives again: helm puts the time of the day into them

Every entry belongs to root and has the time of SOURCE_DATE_EPOCH; names are in order.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write(target: Path, files: Mapping[str, tuple[bytes, bool]]) -> None:
    """Write files by their names in the archive: content, and whether it may be executed."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "1735689600"))
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, (content, is_executable) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if is_executable else 0o644
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(content))
    target.write_bytes(gzip.compress(plain.getvalue(), compresslevel=6, mtime=0))


def read(file: Path) -> dict[str, tuple[bytes, bool]]:
    """The files of an archive as `write` takes them."""
    found = {}
    with tarfile.open(file) as archive:
        for entry in archive:
            if (content := archive.extractfile(entry)) is not None:
                found[entry.name] = content.read(), bool(entry.mode & 0o100)
    return found


def main() -> int:
    """Write each archive again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", type=Path, nargs="+", help="compressed tar archives")
    for each in parser.parse_args().archives:
        write(each, read(each))
    return 0


if __name__ == "__main__":
    sys.exit(main())
