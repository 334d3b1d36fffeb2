"""Who may do what: the question every request asks, and the record of what was asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gcushare_playground.apiserver.identities import User


@dataclass(frozen=True, slots=True)
class Attributes:
    """What one request wants to do; a request for a path outside the resources has only verb and path."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """The resource as RBAC rules write it: ``pods/status``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer(Protocol):
    """Decides every request."""

    def allows(self, attributes: Attributes) -> bool:
        """Tell whether the request may proceed."""
        ...


class AllowAll:
    """Let everybody do everything: the default, for tests and demos that are not about rights."""

    def allows(self, attributes: Attributes) -> bool:
        """Tell that the request may proceed."""
        return True


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the record keeps it."""

    attributes: Attributes
    allowed: bool


class RequestRecord:
    """The latest requests, bounded; what a chart's roles must grant can be read from it."""

    def __init__(self) -> None:
        self._asked: deque[Asked] = deque(maxlen=100_000)

    def add(self, asked: Asked) -> None:
        """Remember one request."""
        self._asked.append(asked)

    def clear(self) -> None:
        """Forget everything."""
        self._asked.clear()

    def of(self, user: str) -> Iterator[Asked]:
        """Yield what a user asked, oldest first."""
        return (asked for asked in self._asked if asked.attributes.user.name == user)

    def used(self, user: str) -> frozenset[tuple[str, str, str]]:
        """Return the (group, resource or path, verb) triples a user needed."""
        found = (asked.attributes for asked in self.of(user))
        return frozenset((a.group, a.full_resource or a.path, a.verb) for a in found)

    def refused(self, user: str) -> list[Attributes]:
        """Return what a user asked and was not allowed."""
        return [asked.attributes for asked in self.of(user) if not asked.allowed]
