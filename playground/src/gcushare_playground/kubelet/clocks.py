"""Wall-clock times in the forms that Kubernetes objects carry."""

from __future__ import annotations

from gcushare.kube.clock import SystemClock, rfc3339, rfc3339_micro


def now_text() -> str:
    """Return the time now as a metav1.Time: whole seconds."""
    return rfc3339(SystemClock().now())


def now_micro_text() -> str:
    """Return the time now as a metav1.MicroTime."""
    return rfc3339_micro(SystemClock().now())
