"""Write the file that kubectl and every client library reads."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import msgspec

from gcushare_playground.apiserver.objects import JsonObject

_NAME = "gcushare-playground"


def write_kubeconfig(path: Path, url: str, *, token: str | None, authority: Path | None, namespace: str) -> Path:
    """Write a kubeconfig with one cluster, one user and one context, readable by its owner only; return its path."""
    cluster: JsonObject = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        "current-context": _NAME,
    }
    # JSON is YAML: no YAML writer needed.
    content = msgspec.json.format(msgspec.json.encode(document), indent=2)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content + b"\n")
    return path
