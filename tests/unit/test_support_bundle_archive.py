"""The archive's file: made by us alone, whatever lies under its names."""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gcushare.cli.support_bundle.archive import MANIFEST, new_archive


def test_a_link_planted_under_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".bundle.tar.gz.partial").symlink_to(victim)
    with new_archive(tmp_path / "bundle.tar.gz", datetime(2026, 1, 1, tzinfo=UTC)) as archive:
        archive.finish({})
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.tar.gz", "victim"]
    assert not (tmp_path / "bundle.tar.gz").is_symlink()


def test_the_size_is_bounded_and_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    with new_archive(path, datetime(2026, 1, 1, tzinfo=UTC), 10) as archive:
        archive.add("doctor.json", b"12345678", "what the doctor found")
        archive.add("logs/plugin.log", b"123", "log")
        archive.add("logs/extender.log", b"12", "log")
        archive.finish({})
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile(f"bundle/{MANIFEST}") or pytest.fail("there is no manifest"))
    assert [each["path"] for each in manifest["files"]] == ["doctor.json", "logs/extender.log"]
    assert manifest["leftOut"] == [{"path": "logs/plugin.log", "why": "its 3 bytes did not fit any more"}]
