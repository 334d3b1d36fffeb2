"""Finding a vendor's library."""

from __future__ import annotations

from pathlib import Path

from gcushare.cards.c_library import decode_text, find_library


def touched(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_the_first_place_that_has_the_library_wins(tmp_path: Path) -> None:
    touched(tmp_path / "b" / "lib.so")
    first = touched(tmp_path / "a" / "lib.so")
    assert find_library([f"{tmp_path}/{folder}/lib.so" for folder in "xab"]) == first


def test_versions_are_found_behind_a_star_and_the_newest_wins(tmp_path: Path) -> None:
    touched(tmp_path / "efsmi" / "1.0" / "lib" / "lib.so")
    newest = touched(tmp_path / "efsmi" / "1.2" / "lib" / "lib.so")
    assert find_library([f"{tmp_path}/efsmi/*/lib/lib.so"]) == newest


def test_a_folder_of_that_name_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "lib.so").mkdir()
    assert find_library([f"{tmp_path}/lib.so"]) is None


def test_a_c_string_ends_at_its_nul_whatever_follows() -> None:
    assert decode_text(b"S60 \0garbage\xff") == "S60"
