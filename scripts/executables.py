"""Build the commands as one executable file per machine, with a Python and a C library of its own.

    python -m scripts.executables OUT IMAGE...

IMAGE is a saved image of gcushare-scheduler-extender (``docker save``, or ``images/NAME.tar`` of build-image.sh). Its
machine is the file's: gcushare-linux-amd64 or gcushare-linux-arm64 in OUT.

The file is a shell script with a compressed tar archive after it. At its first start it unpacks the archive; from then
on it starts the C library's own loader, which starts Python. So the host's Python and C library do not matter: all it
needs is Linux 3.2 or later and a shell with tail, gzip and tar. Under the name of a command it is that command.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gcushare._version import __version__

COMMANDS = (
    "kubectl-inspect-gcushare",
    "kubectl-inspect-gpushare",
    "gcushare-config-manager",
    "kubectl-inspect-gpushare-v2",
)
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""What ``uname -m`` prints, by the name that images give the machine."""
LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}
_PACKAGES = re.compile(".*/(?:site|dist)-packages/(.*)")
# Only programs of the cluster import these. uvloop is faster where thousands of answers a second count.
_LEFT_OUT = re.compile(
    r"(grpc|google|protobuf|cryptography|cffi|_cffi_backend|pycparser|pynvml|nvidia_ml_py|uvloop)([-._/]|io[-_]|$)"
)
_STUB = Path(__file__).with_name("executable_stub.sh")


@dataclass(frozen=True, slots=True)
class Image:
    """What a saved image holds: its machine as images name it, and its files and links by their path."""

    machine: str
    entries: dict[str, tuple[tarfile.TarInfo, bytes]]


def main() -> int:
    """Write one file for each image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="directory of the executables")
    parser.add_argument("images", type=Path, nargs="+", help="saved images, one for each machine")
    given = parser.parse_args()
    images = [read_image(each) for each in given.images]
    check_machines(dict(zip(given.images, images, strict=True)))
    given.out.mkdir(parents=True, exist_ok=True)
    for each in images:
        print(build(each, given.out))  # noqa: T201 - a builder prints what it made
    return 0


def read_image(file: Path) -> Image:
    """Read an image as docker, podman, nerdctl and buildah save it.

    Raises:
        SystemExit: the file cannot be read, is no saved image, or one of a machine that has no executable.
    """
    entries: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    try:
        with tarfile.open(file) as saved:
            manifest = json.loads(_content(saved, "manifest.json"))[0]
            machine: str = json.loads(_content(saved, manifest["Config"]))["architecture"]
            for name in manifest["Layers"]:
                _apply_layer(entries, _content(saved, name))
    except OSError as error:
        raise SystemExit(
            f"the saved image {file} cannot be read ({error.strerror}): "
            "deploy/gcushare-scheduler-extender/build-and-deploy/build-image.sh makes it, and make executables "
            "IMAGE=FILE takes another one"
        ) from error
    except (tarfile.TarError, KeyError, IndexError, ValueError) as error:
        raise SystemExit(f"{file} is no saved image: docker save or build-image.sh writes one") from error
    if machine not in MACHINES:
        raise SystemExit(f"{file} is an image for {machine!r}; executables are made for {', '.join(MACHINES)}")
    return Image(machine, entries)


def check_machines(images: Mapping[Path, Image]) -> None:
    """Refuse two images of one machine: their files would have one name, and one of the two be lost.

    Raises:
        SystemExit: two are.
    """
    files: dict[str, Path] = {}
    for file, image in images.items():
        if (other := files.setdefault(image.machine, file)) is not file:
            raise SystemExit(
                f"{other} and {file} are both images for {image.machine}: give one for each machine; docker save takes "
                "the platform that was pulled last unless --platform names another"
            )


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read()


def _apply_layer(entries: dict[str, tuple[tarfile.TarInfo, bytes]], layer: bytes) -> None:
    """Add a layer's files. A file named ``.wh.NAME`` says that NAME of the layers below is gone."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        for entry in archive:
            path = PurePosixPath(entry.name.removeprefix("./").removeprefix("/"))
            if path.name.startswith(".wh."):
                gone = str(path.with_name(path.name.removeprefix(".wh.")))
                for each in [each for each in entries if each == gone or each.startswith(f"{gone}/")]:
                    del entries[each]
            elif entry.islnk():
                target = entry.linkname.removeprefix("./").removeprefix("/")
                entries[str(path)] = entries[target]
            elif entry.isfile():
                entries[str(path)] = entry, _content(archive, entry.name)
            elif entry.issym():
                entries[str(path)] = entry, b""


def build(image: Image, out: Path) -> Path:
    """Write the executable of an image's machine."""
    chosen = {path: each for path, each in sorted(image.entries.items()) if is_needed(path)}
    missing = [each for each in (*COMMANDS, "gcushare") if f"usr/local/bin/{each}" not in chosen]
    loader = LOADERS[image.machine]
    if missing or loader not in chosen:
        wanted = ", ".join(missing) or loader
        raise SystemExit(f"the image lacks {wanted}: give a saved image of gcushare-scheduler-extender")
    archive = pack(chosen)
    facts = {
        "version": __version__,
        "machine": MACHINES[image.machine],
        "sum": hashlib.sha256(archive).hexdigest()[:16],
        "loader": loader,
        "libraries": ":".join(f"$root/{each}" for each in library_folders(chosen)),
        "python": _python(chosen),
        "commands": " | ".join(COMMANDS),
    }
    stub = _STUB.read_text()
    stub = stub.replace("@lines@", str(stub.count("\n") + 1))
    for name, value in facts.items():
        stub = stub.replace(f"@{name}@", value)
    target = out / f"gcushare-linux-{image.machine}"
    target.write_bytes(stub.encode() + archive)
    target.chmod(0o755)
    return target


def is_needed(path: str) -> bool:
    """Whether a file of the image is for the commands: Python with its libraries, and the packages that they load."""
    package = _PACKAGES.fullmatch(path)
    if package is not None:
        return _LEFT_OUT.match(package[1]) is None
    return path.startswith(("usr/local/bin/", "usr/local/lib/")) or ".so" in PurePosixPath(path).name


def library_folders(paths: Iterable[str]) -> list[str]:
    """The folders of shared libraries, for the loader; the modules of Python and of packages name theirs themselves."""
    return sorted({str(PurePosixPath(each).parent) for each in paths if ".so" in each and "/python3." not in each})


def _python(paths: Iterable[str]) -> str:
    """The interpreter: python3.11, not the link python3."""
    (found,) = (each for each in paths if re.fullmatch(r"usr/local/bin/python3\.\d+", each))
    return found


def pack(chosen: dict[str, tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """The files as a compressed archive, the same for the same files."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "1735689600"))
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, (entry, content) in chosen.items():
            packed = tarfile.TarInfo(path)
            packed.type, packed.linkname, packed.mtime = entry.type, entry.linkname, epoch
            if entry.islnk():
                packed.type, packed.linkname = tarfile.REGTYPE, ""
            packed.mode, packed.size = (0o755 if entry.mode & 0o100 else 0o644), len(content)
            archive.addfile(packed, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)


if __name__ == "__main__":
    sys.exit(main())
