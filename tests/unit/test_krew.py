"""The krew manifests of a release: of krew's schema, with the checksum of the archive, for what is released."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import pytest
from scripts import krew, single_files

from gcushare._version import __version__
from gcushare.wire.untrusted_yaml import load_yaml

BASE = "https://example.invalid/releases/v1"
CONTENT = b"#!/usr/bin/env python3\nprint('a command')\n"


@pytest.fixture(params=single_files.COMMANDS)
def command(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def manifest(command: str, tmp_path: Path) -> dict[str, Any]:
    """The manifest of a command whose archive is next to it."""
    (tmp_path / command).write_bytes(CONTENT)
    written = krew.write(command, tmp_path, BASE, tmp_path)
    assert written == tmp_path / f"{command.removeprefix('kubectl-')}.yaml"
    found = load_yaml(written.read_text(), "manifest", limit_bytes=1 << 20)
    assert isinstance(found, dict)
    return found


def test_each_platform_names_the_archive_with_its_checksum_and_the_file_in_it(
    manifest: dict[str, Any], command: str, tmp_path: Path
) -> None:
    archive = tmp_path / f"{command}_{__version__}.tar.gz"
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    for platform in manifest["spec"]["platforms"]:
        assert platform["uri"] == f"{BASE}/{archive.name}"
        assert (platform["sha256"], platform["bin"]) == (checksum, command)
    with tarfile.open(archive) as opened:
        (entry,) = opened.getmembers()
        file = opened.extractfile(entry)
        assert file is not None
        assert (entry.name, entry.mode, file.read()) == (command, 0o755, CONTENT)


def test_on_linux_both_commands_take_the_executable_of_the_machine(tmp_path: Path) -> None:
    for name in (*single_files.COMMANDS, "gcushare-linux-amd64", "gcushare-linux-arm64"):
        (tmp_path / name).write_bytes(CONTENT)
    written = [krew.write(each, tmp_path, BASE, tmp_path) for each in single_files.COMMANDS]
    for command, file in zip(single_files.COMMANDS, written, strict=True):
        found = load_yaml(file.read_text(), "manifest", limit_bytes=1 << 20)
        assert isinstance(found, dict)
        spec = found["spec"]
        assert [each["bin"] for each in spec["platforms"]] == ["gcushare-linux-amd64", "gcushare-linux-arm64", command]
        assert spec["caveats"] == "On macOS it needs Python 3.11 to 3.14 on the PATH, as python3.\n"
        for each in spec["platforms"]:
            archive = tmp_path / each["uri"].removeprefix(f"{BASE}/")
            assert hashlib.sha256(archive.read_bytes()).hexdigest() == each["sha256"]
