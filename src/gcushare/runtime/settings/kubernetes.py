"""Settings of the connection to the API server."""

from __future__ import annotations

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import optional_setting, settings


@settings
class KubeSettings:
    """Kubernetes API."""

    kubeconfig: str | None = optional_setting(
        parsers.optional(
            parsers.text("FILE", accepted="a kubeconfig file, or several joined by colons"),
            "in a pod its service account, elsewhere ~/.kube/config",
        ),
        env="KUBECONFIG",
        help="How to reach the API server, in the form that kubectl reads.",
    )
    context: str | None = optional_setting(
        parsers.optional(parsers.text("NAME", accepted="a context of the kubeconfig"), "its current context"),
        help="Which of the kubeconfig's contexts to use.",
    )
