"""JSON documents that our programs serve and read: inspect, explain, status."""

import msgspec


class Document(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of documents and their parts: names in camelCase, fields with their default left out."""
