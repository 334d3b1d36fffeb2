"""What the executables are made of: the files of a saved image, layer over layer."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from scripts import executables

from tests.playground.installing import write_saved_image


def layer(*entries: tuple[str, bytes], links: dict[str, str] | None = None, compressed: bool = False) -> bytes:
    """A layer with these files; a hard link is a name for a file of the layer."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz" if compressed else "w") as archive:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.LNKTYPE, target
            archive.addfile(entry)
    return file.getvalue()


def contents(image: executables.Image) -> dict[str, bytes]:
    return {path: content for path, (_, content) in image.entries.items()}


def test_a_later_layer_replaces_and_removes_files_of_earlier_ones(tmp_path: Path) -> None:
    lower = layer(("./a", b"1"), ("b", b"1"), ("gone/c", b"1"), ("gone/d", b"1"), ("gonetoo", b"1"))
    upper = layer(("b", b"2"), (".wh.gone", b""), compressed=True)
    write_saved_image(tmp_path / "image.tar", "arm64", [lower, upper])
    image = executables.read_image(tmp_path / "image.tar")
    assert (image.machine, contents(image)) == ("arm64", {"a": b"1", "b": b"2", "gonetoo": b"1"})


@pytest.mark.parametrize(
    ("path", "is_needed"),
    [
        pytest.param("lib/x86_64-linux-gnu/libc.so.6", True, id="C library"),
        pytest.param("usr/local/lib/python3.11/os.py", True, id="Python's library"),
        pytest.param("usr/local/lib/python3.11/site-packages/gcushare/__init__.py", True, id="own package"),
        pytest.param("usr/lib/python3.11/dist-packages/rich/table.py", True, id="Debian's folder"),
        pytest.param("usr/local/lib/python3.11/site-packages/googly.py", True, id="a name that begins alike"),
        pytest.param("usr/local/lib/python3.11/site-packages/grpc/_cython/cygrpc.so", False, id="gRPC"),
        pytest.param("usr/local/lib/python3.11/site-packages/grpcio-1.0.dist-info/METADATA", False, id="gRPC's data"),
        pytest.param("usr/local/lib/python3.11/site-packages/pynvml.py", False, id="NVML"),
        pytest.param("etc/passwd", False, id="users"),
    ],
)
def test_what_only_programs_of_the_cluster_load_is_left_out(path: str, is_needed: bool) -> None:
    assert executables.is_needed(path) == is_needed
