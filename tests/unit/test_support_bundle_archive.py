"""The archive's file: made by us alone, whatever lies under its names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gcushare.cli.support_bundle.archive import new_archive


def test_a_link_planted_under_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".bundle.tar.gz.partial").symlink_to(victim)
    with new_archive(tmp_path / "bundle.tar.gz", datetime(2026, 1, 1, tzinfo=UTC), 1000) as archive:
        archive.finish({})
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.tar.gz", "victim"]
    assert not (tmp_path / "bundle.tar.gz").is_symlink()
