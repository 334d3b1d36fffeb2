"""The page's files: read once from the package, named by their contents.

The page itself is loaded at every visit and says which version of the files it wants; those stand under a path with
that version, so browsers keep them permanently and never mix two releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources

from aiohttp import web

from gcushare.scheduler_extender.dashboard.security_headers import SECURITY_HEADERS

PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMMUTABLE = "public, max-age=31536000, immutable"


class Assets:
    """All files of the page."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        self.version = digest.hexdigest()[:16]
        page = files[PAGE].replace(b'="static/', b'="static/%b/' % self.version.encode())
        self._files = {**files, PAGE: page}

    async def page(self, _: web.Request) -> web.Response:
        return self._answer(PAGE, "no-cache")

    async def file(self, request: web.Request) -> web.Response:
        """Answer with the file that the path names.

        Raises:
            web.HTTPNotFound: no such file, or one of another version: then the page must be loaded again.
        """
        name, version = request.match_info["name"], request.match_info["version"]
        if name not in self._files or version != self.version or name == PAGE:
            raise web.HTTPNotFound(text="no such file in this version of the page; load the page again")
        return self._answer(name, _IMMUTABLE)

    def _answer(self, name: str, caching: str) -> web.Response:
        headers = {
            **SECURITY_HEADERS,
            "Cache-Control": caching,
            "Content-Type": _TYPES[name[name.rfind(".") :]],
            "Vary": "Accept-Encoding",
        }
        response = web.Response(body=self._files[name], headers=headers)
        response.enable_compression()
        return response


def load_assets() -> Assets:
    """Read the files from the package."""
    folder = resources.files(__package__) / "static"
    return Assets({each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()})
