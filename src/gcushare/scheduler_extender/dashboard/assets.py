"""The page's files: read once from the package, named by their contents, kept compressed.

The page itself is asked about at every visit and says which version of the files it wants; those stand under a path
with that version, so browsers keep them permanently and never mix two releases.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from aiohttp import web
from multidict import CIMultiDict

from gcushare.scheduler_extender.dashboard.security_headers import SECURITY_HEADERS

PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_IMMUTABLE = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, plain and compressed."""

    content_type: str
    plain: bytes
    packed: bytes
    etag: str

    def answer(self, request: web.Request, caching: str) -> web.Response:
        """Answer a request for it: 304 if the browser has it, compressed if the browser can unpack it."""
        headers = CIMultiDict(
            {**SECURITY_HEADERS, "Cache-Control": caching, "ETag": f'"{self.etag}"', "Vary": "Accept-Encoding"}
        )
        if any(tag.value in (self.etag, "*") for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = self.content_type
        if accepts_gzip(request) and len(self.packed) < len(self.plain):
            headers["Content-Encoding"] = "gzip"
            return web.Response(body=self.packed, headers=headers)
        return web.Response(body=self.plain, headers=headers)


class Assets:
    """All files of the page."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        self.version = digest.hexdigest()[:16]
        page = files[PAGE].replace(b'="static/', b'="static/%b/' % self.version.encode())
        self._files: dict[str, Asset] = {}
        for name, content in {**files, PAGE: page}.items():
            packed = gzip.compress(content, 9, mtime=0)  # Without a time, equal contents give equal bytes.
            tag = hashlib.sha256(content).hexdigest()[:24]
            self._files[name] = Asset(_TYPES[name[name.rfind(".") :]], content, packed, tag)

    def page(self, request: web.Request) -> web.Response:
        return self._files[PAGE].answer(request, _ASK_AGAIN)

    def file(self, request: web.Request) -> web.Response:
        """Answer with the file that the path names.

        Raises:
            web.HTTPNotFound: no such file, or one of another version: then the page must be loaded again.
        """
        found = self._files.get(request.match_info["name"])
        if found is None or request.match_info["version"] != self.version or request.match_info["name"] == PAGE:
            raise web.HTTPNotFound(text="no such file in this version of the page; load the page again")
        return found.answer(request, _IMMUTABLE)


def load_assets() -> Assets:
    """Read the files from the package."""
    folder = resources.files(__package__) / "static"
    return Assets({each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()})


def accepts_gzip(request: web.Request) -> bool:
    """Whether the client can unpack gzip."""
    for offered in request.headers.get("Accept-Encoding", "").split(","):
        coding, _, weight = offered.lower().replace(" ", "").partition(";")
        if coding == "gzip":
            return weight not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
