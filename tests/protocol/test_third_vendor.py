"""A vendor is one module, its library's binding, and one word: nothing else of the source knows how many there are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts.vendors import write

import gcushare
from gcushare.vendors import VENDORS
from tests.charts import DEPLOY, ROOT

SOURCE = Path(gcushare.__file__).parent
THIRD = ROOT / "tests/third_vendor"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_third_vendor_is_two_files_and_one_word(tmp_path: Path) -> None:
    """On copies of the source and of deploy/: the checks run against them in a process of its own."""
    house = tmp_path / "src" / "gcushare"
    shutil.copytree(SOURCE, house, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(DEPLOY, tmp_path / "deploy", symlinks=True)
    shutil.copy(THIRD / "acme.py", house / "vendors")
    shutil.copy(THIRD / "acme_library.py", house / "cards")
    registry = house / "vendors/__init__.py"
    before = registry.read_text()
    after = before.replace('("enflame", "aliyun")', '("enflame", "aliyun", "acme")')
    assert after != before
    registry.write_text(after)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(THIRD / "checks.py")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "THIRD_VENDOR_DEPLOY": str(tmp_path / "deploy")},
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_deploy_knows_of_vendors_and_policies_is_up_to_date(tmp_path: Path) -> None:
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy, symlinks=True)
    changed = [str(path.relative_to(copy)) for path in write(copy)]
    assert changed == [], "run make vendors and commit what changes"


def test_every_vendor_has_its_manifests_and_its_kubectl_commands() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for vendor in VENDORS:
        assert (DEPLOY / "manifests" / vendor.name / "gcushare.yaml").exists(), "run make vendors"
        assert f"kubectl-inspect-{vendor.kubectl_plugin}" in scripts


def test_no_two_vendors_share_a_word_on_the_wire() -> None:
    for words in (
        [v.name for v in VENDORS],
        [v.kubectl_plugin for v in VENDORS],
        [v.url_prefix for v in VENDORS],
        [v.library.name for v in VENDORS],
        [v.name_suffix for v in VENDORS],
        [r for v in VENDORS for r in (v.memory_resource, v.count_resource, v.whole_card_resource)],
        [s for v in VENDORS for s in (v.plugin_socket, v.whole_card_socket)],
        [a for v in VENDORS for a in (v.inventory_annotation, v.cordon_annotation)],
    ):
        assert len(set(words)) == len(words), words


ALLOWED = ("vendors", "cards/enflame", "cards/nvidia", "cli")
"""Where a vendor's name may stand: commands for people name other programs that serve a family's cards."""


def test_no_module_knows_a_vendor_by_name() -> None:
    names = "|".join(vendor.name for vendor in VENDORS)
    known = re.compile(rf"[\"'](?:{names})[\"']|\b(?:{names.upper()})\b")
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(ALLOWED):
            assert not known.findall(path.read_text()), f"{place} names a vendor: take it from the value that is passed"
