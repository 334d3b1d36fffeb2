"""Costly files that all worker processes of a test run share: the first worker makes them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """Have ``build`` fill a folder once in this test run; what it raises has the next test try again."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    done = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            making = factory.mktemp(f"{name}-making")
            build(making)
            making.rename(done)
    return done
