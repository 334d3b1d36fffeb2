"""Settings of the connection to the API server."""

from __future__ import annotations

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting, settings


@settings
class KubeSettings:
    """Kubernetes API."""

    kubeconfig: str | None = setting(
        parsers.optional(
            parsers.text("FILE", accepted="a kubeconfig file, or several joined by colons"),
            "in a pod its service account, elsewhere ~/.kube/config",
        ),
        default=None,
        env="KUBECONFIG",
        help="How to reach the API server, in the form that kubectl reads.",
    )
    kube_context: str | None = setting(
        parsers.optional(parsers.text("NAME", accepted="a context of the kubeconfig"), "its current context"),
        default=None,
        alias="--context",
        help="Which of the kubeconfig's contexts to use; either word will do.",
    )
    kube_api_timeout: float = setting(
        parsers.duration_s(0.1, 600),
        default=10.0,
        help="How long one request to the API server may take; lists and watches have their own times. A healthy "
        "server answers in milliseconds.",
    )
