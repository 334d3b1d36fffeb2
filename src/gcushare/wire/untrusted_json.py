"""JSON that another program wrote, decoded within bounds: a value of the declared type, or ``RemoteContractError``.

Bounds. Size: each decoder names its bytes. Numbers: the types declare them (``Int``, ``Count``), and JSON has no
infinite ones; a test walks the types of all decoders for a number without bounds. Depth: documents that are read into
plain values, and annotations, which any pod's author may have written, are limited to ``MAX_DEPTH``. Of an object of
the API server, typed, nothing deeper than its type survives; how deep the rest is must not matter, or the author of one
pod (whose managedFields the API server keeps to any depth that Go reads) would stop every list that the pod is in. So
where the parser's own limit ends such an object it is read once more with room for ``OBJECT_DEPTH``, which takes below
0.8 MiB of stack.

Cost (CPU time, one of two busy cores): 0.5 us an object beside the 5 to 20 us that decoding a pod or a node takes; 2 us
an inventory of 8 cards, depth included, beside the 60 us that reading it takes.
"""

from __future__ import annotations

import re
import sys
from typing import Annotated, BinaryIO, Generic, TypeAlias, TypeVar

import msgspec

from gcushare.core.errors import RemoteContractError

T = TypeVar("T")

MAX_INT = 2**63 - 1
Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_INT)]
"""A whole number as Kubernetes keeps them: int64."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
"""A number of things, or bytes."""

MAX_DEPTH = 32
"""Lists and objects within each other; our own documents have six levels."""
OBJECT_DEPTH = 10_000
"""What Go's encoding/json reads, and so the most that an API server passes on."""

ANNOTATION_BYTES = 256 * 1024
"""All annotations of an object together, by the API server's own limit."""
OBJECT_BYTES = 16 * 1024 * 1024
"""One object: etcd keeps 1.5 MiB by default, and 10 MB where that was raised."""

_PIECE_BYTES = 64 * 1024
_MAX_REASON = 200
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")


class BoundedJsonDecoder(Generic[T]):
    """Reads one kind of document. ``what`` is how errors call it, ``limit_bytes`` the largest that is looked at.

    ``max_depth`` None is for types that keep nothing of unknown shape; see the module.
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
            RemoteContractError: too large, not UTF-8, not JSON, nested too deeply, not of this kind, or with a number
                out of bounds; says which, and quotes nothing of it.
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
        except Exception as error:  # whatever the parser raises, and it does not say what that may be
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
    """Say in one bounded line what a parser met; text of the document itself is not quoted."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= _MAX_REASON else f"{line[: _MAX_REASON - 1]}…"


def read_bounded(stream: BinaryIO, limit_bytes: int, what: str) -> bytes:
    """Read a file that another program, or a person, wrote; one that never ends costs ``limit_bytes``.

    In pieces: one read of so much would allocate all of it, however little there is.

    Raises:
        RemoteContractError: it is larger.
        OSError: as reading raises it.
    """
    content = bytearray()
    while piece := stream.read(min(_PIECE_BYTES, limit_bytes + 1 - len(content))):
        content += piece
    if len(content) > limit_bytes:
        raise RemoteContractError(f"{what} has more than {limit_bytes} bytes, which are the most that are read")
    return bytes(content)


def _check_depth(body: bytes, max_depth: int) -> None:
    """Check the depth of JSON that was parsed, so that its brackets are known to match.

    Fewer brackets than levels cannot be deeper; of more, the innermost pairs are taken away round by round.
    """
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    brackets = _STRINGS.sub(b"", body).translate(_TO_SQUARE, _NO_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise RecursionError
