"""Decodes JSON from other programs within bounds: a value of the declared type, or ``RemoteContractError``.

Size: each decoder has a limit in bytes. Numbers: the types declare their range (``Int``, ``Count``); a test checks the
types of all decoders for numbers without one. Depth: annotations, which any pod's author may have written, and
documents that are read into plain values are limited to ``MAX_DEPTH``.

A typed object of the API server keeps nothing deeper than its type, so its depth must not matter: otherwise the author
of one pod (with managedFields of any depth that Go accepts) could break every list that contains the pod. If such an
object exceeds the parser's own limit, it is read again with a limit of ``OBJECT_DEPTH``, which takes less than 0.8 MiB
of stack.

Cost (CPU time, one of two busy cores): 0.5 us per object, where decoding a pod or a node takes 5 to 20 us; 2 us per
inventory of 8 cards, depth included, where reading it takes 60 us.
"""

from __future__ import annotations

import re
import sys
from typing import BinaryIO, Generic, TypeVar

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.core.quantities import MAX_INT as MAX_INT  # for the many modules that declare documents
from gcushare.core.quantities import Count as Count
from gcushare.core.quantities import Int as Int

T = TypeVar("T")

MAX_DEPTH = 32
"""Nesting of lists and objects. Our own documents have six levels."""
OBJECT_DEPTH = 10_000
"""The nesting that Go's encoding/json accepts, and so the maximum that an API server passes on."""

ANNOTATION_BYTES = 256 * 1024
"""All annotations of one object: the API server's own limit."""
OBJECT_BYTES = 16 * 1024 * 1024
"""One object. etcd stores up to 1.5 MiB by default, and 10 MB if its limit is raised."""

_PIECE_BYTES = 64 * 1024
_MAX_REASON = 200
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")


class BoundedJsonDecoder(Generic[T]):
    """Reads one kind of document. ``what`` names it in errors; ``limit_bytes`` is its largest accepted size.

    Use ``max_depth`` None only for types that keep nothing of unknown shape; see the module's docstring.
    """

    __slots__ = ("_decode", "kind", "limit_bytes", "max_depth", "what")

    def __init__(self, kind: type[T], what: str, *, limit_bytes: int, max_depth: int | None = MAX_DEPTH) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self.kind = kind
        self.what = what
        self.limit_bytes = limit_bytes
        self.max_depth = max_depth

    def read(self, raw: bytes | str | msgspec.Raw) -> T:
        """Read a document.

        Raises:
            RemoteContractError: too large, not UTF-8, not JSON, nested too deeply, of another type, or with a number
                out of bounds. The message says which and quotes nothing of the document.
        """
        try:
            body = raw.encode() if isinstance(raw, str) else raw
            if len(body) > self.limit_bytes:
                raise RemoteContractError(
                    f"{self.what} cannot be read: it has {len(body)} bytes; at most {self.limit_bytes} are accepted"
                )
            value = self._decode(body)
            if self.max_depth is not None:
                _check_depth(bytes(body), self.max_depth)
        except RecursionError as error:
            if self.max_depth is None:
                return self._read_deep(raw)
            raise self._refusal(f"nested deeper than {self.max_depth} levels") from error
        except RemoteContractError:
            raise
        except Exception as error:  # the parser does not document what it raises
            raise self._refusal(reason_of(error)) from error
        return value

    def _read_deep(self, raw: bytes | str | msgspec.Raw) -> T:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + OBJECT_DEPTH)
        try:
            return self._decode(raw)
        except RecursionError as error:
            raise self._refusal(f"nested deeper than {OBJECT_DEPTH} levels") from error
        except Exception as error:
            raise self._refusal(reason_of(error)) from error
        finally:
            sys.setrecursionlimit(limit)

    def _refusal(self, reason: str) -> RemoteContractError:
        return RemoteContractError(f"{self.what} cannot be read: {reason}")


def reason_of(error: Exception) -> str:
    """Describe a parser's error in one bounded line, without quoting the document."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= _MAX_REASON else f"{line[: _MAX_REASON - 1]}…"


def read_bounded(stream: BinaryIO, limit_bytes: int, what: str) -> bytes:
    """Read a file of another program or a person, up to ``limit_bytes``, even if the file never ends.

    It is read in pieces, because one large read would allocate the whole limit even for a small file.

    Raises:
        RemoteContractError: the file is larger.
        OSError: reading failed.
    """
    content = bytearray()
    while piece := stream.read(min(_PIECE_BYTES, limit_bytes + 1 - len(content))):
        content += piece
    if len(content) > limit_bytes:
        raise RemoteContractError(f"{what} is too large; at most {limit_bytes} bytes are accepted")
    return bytes(content)


def _check_depth(body: bytes, max_depth: int) -> None:
    """Check the nesting of JSON that was parsed successfully, so that its brackets are known to match.

    Text with fewer brackets than levels cannot be deeper. Otherwise the innermost pairs are removed, level by level.
    """
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    brackets = _STRINGS.sub(b"", body).translate(_TO_SQUARE, _NO_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise RecursionError
