"""Credentials of the older kind (``users[].user.auth-provider``: oidc, gcp), through kubernetes_asyncio.

That package is imported here and nowhere else, when such a user is first asked for: measured on Python 3.11 beside
aiohttp, its import takes 0.25 s warm (0.65 s cold) and 39 MiB, as its root module imports the whole generated client,
whichever submodule is asked for. Everything else of a kubeconfig is read by ``kubeconfig.py``: the package's own loader
writes client keys to files that outlive a SIGKILL, takes the last file's current-context where kubectl takes the first,
and cannot read an https cluster without a user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from gcushare.core.errors import ConfigError
from gcushare.kube.errors import describe

PROVIDERS = ("oidc", "gcp")


class ProviderCredentials:
    """Asks the provider's loader before each request; it refreshes an expired token by itself.

    The refreshed token stays in memory: the kubeconfig belongs to its user, and another program may be writing it.
    """

    def __init__(self, provider: Mapping[str, Any], where: str) -> None:
        name = provider.get("name")
        if name not in PROVIDERS:
            raise ConfigError(
                f"{where}: auth-provider {name!r} is not known, accepted: {', '.join(PROVIDERS)}, or exec"
            )
        self._where = where
        self._provider = dict(provider)
        self._loader: Any = None
        self._loading = asyncio.Lock()

    async def header(self) -> str | None:
        """Return the provider's current token."""
        async with self._loading:
            # Kept for its whole import time out of programs that never need it.
            from kubernetes_asyncio.client import Configuration
            from kubernetes_asyncio.config.kube_config import KubeConfigLoader

            try:
                if self._loader is None:
                    self._loader = KubeConfigLoader(self._document())
                settings = Configuration()
                await self._loader.load_and_set(settings)
            except Exception as error:  # it raises a dozen kinds, asserts included; none may pass this edge
                raise ConfigError(f"{self._where}: auth-provider gave no token: {describe(error)}") from error
            header: str | None = settings.api_key.get("BearerToken")
            return header

    def reject(self, header: str | None) -> None:
        """Start again next time; the provider's stored refresh token is used where it has one."""
        self._loader = None

    def _document(self) -> dict[str, Any]:
        """A kubeconfig of this user alone; its server is never called, and without https no certificate is touched."""
        return {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://unused.invalid"}}],
            "users": [{"name": "u", "user": {"auth-provider": self._provider}}],
        }
