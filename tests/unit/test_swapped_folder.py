"""The folder of certificates, its change cut off at each step: whole sets only, and the next one ends well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FIRST = {"tls.crt": b"certificate 1", "tls.key": b"key 1"}
SECOND = {"tls.crt": b"certificate 2", "tls.key": b"key 2"}
THIRD = {"tls.crt": b"certificate 3", "tls.key": b"key 3"}

STEPS = {"open", "os.mkdir", "os.symlink", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
"""Audit events of calls that change a folder; ``open`` of the folder itself, to walk it, among them."""

CUT_OFF = """
import sys
from pathlib import Path
from tests.unit.test_swapped_folder import FIRST, SECOND, STEPS, THIRD
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import SwappedFolder

left = None

def count(event, arguments):
    global left
    if left is not None and event in STEPS:
        left -= 1
        if left == 0:
            left = None
            raise OSError(28, "No space left on device")

sys.addaudithook(count)
limit = 0
while left is None:
    limit += 1
    root = Path(sys.argv[1]) / str(limit)
    root.mkdir()
    folder = SwappedFolder(root)
    folder.put(FIRST)
    left = limit
    try:
        folder.put(SECOND)
    except OSError:
        shown = {name: folder.file(name).read_bytes() for name in FIRST}
        assert shown in (FIRST, SECOND), (limit, shown)
        folder.put(THIRD)
        assert {name: folder.file(name).read_bytes() for name in FIRST} == THIRD, limit
        sets = [each.name for each in root.iterdir() if each.is_dir() and not each.is_symlink()]
        assert len(sets) == 1, (limit, sets)
print(limit)
"""
"""In a process of its own: an audit hook cannot be taken away again."""


def test_a_change_that_fails_at_any_step_shows_a_whole_set_and_the_next_one_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 8, "the change was cut off at each of its steps"
