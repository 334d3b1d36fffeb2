"""Images of one static program each, made here, so that nothing has to be pulled."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

NAME = "gcushare.test/witness:1"
_SOURCE = Path(__file__).parent / "image" / "witness.c"
_MEDIA = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def build_image(folder: Path) -> Path:
    """Compile the program and pack it as an OCI archive; skip the test where that cannot be done."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler for the container's program: install cc (gcc or clang) or name one in CC")
    program = folder / "witness"
    built = subprocess.run([compiler, "-static", "-O1", "-o", program, _SOURCE], capture_output=True, text=True)
    if built.returncode != 0:
        pytest.skip(f"no static C library for the container's program ({built.stderr.strip()[:200]}): install libc's")
    return pack_program(program, NAME)


def pack_program(program: Path, name: str) -> Path:
    """Pack one static program as an OCI archive next to it, as image ``name``; returns the archive."""
    layer = _tar({program.name: (program.read_bytes(), 0o755)})
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"], "Env": ["PATH=/"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar", layer)],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = _json(
        {"schemaVersion": 2, "manifests": [_descriptor("manifest.v1+json", manifest) | {"annotations": names}]}
    )
    blobs = {f"blobs/sha256/{_digest(blob)[7:]}": (blob, 0o644) for blob in (layer, config, manifest)}
    layout = _json({"imageLayoutVersion": "1.0.0"})
    target = program.with_name(f"{program.name}.tar")
    target.write_bytes(_tar({"oci-layout": (layout, 0o644), "index.json": (index, 0o644), **blobs}))
    return target


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": _digest(blob), "size": len(blob)}
