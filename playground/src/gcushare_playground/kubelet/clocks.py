"""Wall-clock times in the forms that Kubernetes objects carry."""

from __future__ import annotations

import datetime


def now_text() -> str:
    """Return the time now as a metav1.Time: whole seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro_text() -> str:
    """Return the time now as a metav1.MicroTime."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
