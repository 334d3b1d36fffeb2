"""What a release is made of: krew manifests, executables, lists of contents."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from scripts import executables, krew, sbom, single_files

from gcushare.wire.untrusted_yaml import load_yaml
from tests.playground.installing import write_saved_image

BASE = "https://example.invalid/releases/v1"
CONTENT = b"#!/usr/bin/env python3\nprint('a command')\n"


@pytest.mark.parametrize("executables", [(), ("gcushare-linux-amd64", "gcushare-linux-arm64")], ids=["none", "linux"])
@pytest.mark.parametrize("command", single_files.COMMANDS)
def test_each_platform_names_its_archive_with_the_checksum_and_the_one_file_in_it(
    command: str, executables: tuple[str, ...], tmp_path: Path
) -> None:
    for name in (command, *executables):
        (tmp_path / name).write_bytes(CONTENT)
    written = krew.write(command, tmp_path, BASE, tmp_path)
    assert written == tmp_path / f"{command.removeprefix('kubectl-')}.yaml"
    found = load_yaml(written.read_text(), "manifest", limit_bytes=1 << 20)
    assert isinstance(found, dict)
    platforms = found["spec"]["platforms"]
    assert {each["bin"] for each in platforms} == {command, *executables}
    for each in platforms:
        archive = tmp_path / each["uri"].removeprefix(f"{BASE}/")
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == each["sha256"]
        with tarfile.open(archive) as opened:
            (entry,) = opened.getmembers()
            file = opened.extractfile(entry)
            assert file is not None
            assert (entry.name, entry.mode, file.read()) == (each["bin"], 0o755, CONTENT)


def layer(*entries: tuple[str, bytes], compressed: bool = False) -> bytes:
    """A layer with these files."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz" if compressed else "w") as archive:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def contents(image: executables.Image) -> dict[str, bytes]:
    return {path: content for path, (_, content) in image.entries.items()}


def test_a_later_layer_replaces_and_removes_files_of_earlier_ones(tmp_path: Path) -> None:
    lower = layer(("./a", b"1"), ("b", b"1"), ("gone/c", b"1"), ("gone/d", b"1"), ("gonetoo", b"1"))
    upper = layer(("b", b"2"), (".wh.gone", b""), compressed=True)
    write_saved_image(tmp_path / "image.tar", "arm64", [lower, upper])
    image = executables.read_image(tmp_path / "image.tar")
    assert (image.machine, contents(image)) == ("arm64", {"a": b"1", "b": b"2", "gonetoo": b"1"})


@pytest.mark.parametrize("builder", [executables, sbom], ids=["executables", "lists of contents"])
def test_two_images_of_one_machine_are_refused_before_anything_is_written(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "a.tar", tmp_path / "b.tar"]
    for file in files:
        write_saved_image(file, "amd64", [layer(("a", b"1"))])
    monkeypatch.setattr("sys.argv", ["builder", str(tmp_path / "out"), *map(str, files)])
    with pytest.raises(SystemExit, match=r"a\.tar and .*b\.tar are both images for amd64"):
        builder.main()
    assert not (tmp_path / "out").exists()


def test_the_list_of_contents_names_python_its_packages_and_the_debian_packages(tmp_path: Path) -> None:
    site = "usr/local/lib/python3.13/site-packages"
    files = layer(
        ("usr/local/bin/python3.13", b"\x7fELF"),
        ("usr/local/lib/libpython3.13.so.1.0", b"..\x003.13.9\x00.."),
        (f"{site}/ruamel.yaml-0.19.1.dist-info/METADATA", b"Name: ruamel.yaml\nVersion: 0.19.1\nLicense: MIT\n\nText"),
        (f"{site}/gcushare-1.0.dist-info/METADATA", b"Name: gcushare\nVersion: 1.0\nLicense-Expression: Apache-2.0\n"),
        ("etc/os-release", b'ID=debian\nVERSION_ID="13"\n'),
        ("var/lib/dpkg/status.d/libc6", b"Package: libc6\nVersion: 2.41-12+deb13u1\nArchitecture: amd64\n"),
    )
    write_saved_image(tmp_path / "image.tar", "amd64", [files])
    found = sbom.describe(executables.read_image(tmp_path / "image.tar"))["components"]
    assert isinstance(found, list)
    assert [(each["purl"], each["licenses"][0]["license"]["name"]) for each in found] == [
        ("pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=debian-13", "usr/share/doc/libc6/copyright"),
        ("pkg:generic/python@3.13.9", "PSF-2.0"),
        ("pkg:pypi/gcushare@1.0", "Apache-2.0"),
        ("pkg:pypi/ruamel-yaml@0.19.1", "MIT"),
    ]


@pytest.mark.parametrize(
    ("path", "is_needed"),
    [
        pytest.param("lib/x86_64-linux-gnu/libc.so.6", True, id="C library"),
        pytest.param("usr/local/lib/python3.11/os.py", True, id="Python's library"),
        pytest.param("usr/local/lib/python3.11/site-packages/gcushare/__init__.py", True, id="own package"),
        pytest.param("usr/local/lib/python3.11/site-packages/googly.py", True, id="a name that begins alike"),
        pytest.param("usr/local/lib/python3.11/site-packages/grpc/_cython/cygrpc.so", False, id="gRPC"),
        pytest.param("usr/local/lib/python3.11/site-packages/grpcio-1.0.dist-info/METADATA", False, id="gRPC's data"),
        pytest.param("etc/passwd", False, id="users"),
    ],
)
def test_what_only_programs_of_the_cluster_load_is_left_out(path: str, is_needed: bool) -> None:
    assert executables.is_needed(path) == is_needed
