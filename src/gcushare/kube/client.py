"""The client: the requests that the programs send to the API server, with our own types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from gcushare._version import __version__
from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError, RemoteContractError, RetryableError
from gcushare.kube import patches
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import MAX_ANSWER_BYTES, ApiTransport, Limits, Observer, Request, Transport
from gcushare.kube.connection.watch_lines import RawWatchEvent, watch_events
from gcushare.kube.errors import AnswerTooLargeError, FailedRequest, InvalidError, NotAnApiServerError, describe_content
from gcushare.kube.patches import Patch, Precondition
from gcushare.kube.resources import EVERYTHING, NODES, PODS, Resource, Selector, with_query
from gcushare.wire.kubernetes_versions import eviction_version
from gcushare.wire.objects import KIND, ListOf, Node, Pod
from gcushare.wire.untrusted_json import BoundedJsonDecoder

T = TypeVar("T")

PAGE_SIZE = 500
"""Objects per page of a list, as in kubectl. A page of pods is 2 to 5 MB of JSON and takes about 10 ms to decode."""

_LESS = 8
"""How much fewer objects are asked for once a page was too large."""

_PATIENCE = 10
"""How often a page is asked for again where the server says when, as client-go does: else a list never ends."""

_JSON = "application/json"
VERSION = BoundedJsonDecoder(dict[str, str | bool | None], "the API server's version", limit_bytes=64 * 1024)
PAGE = BoundedJsonDecoder(ListOf[msgspec.Raw], "a list", limit_bytes=MAX_ANSWER_BYTES, max_depth=None)
_ENCODER = msgspec.json.Encoder()
NO_PRECONDITION = Precondition()
MAX_DEPTH_OF_PLAIN = 64
"""Nesting of an object that is read into dictionaries. Kubernetes' own types have at most about 20 levels."""


class KubeClient:
    """One API server. Open it with ``async with``. Any number of tasks may use all methods at once.

    All methods raise only the errors of ``gcushare.kube.errors``. No method retries, because only the caller
    knows whether a repetition is safe; except once after a 401, and a page for which the server says when to ask again.

    ``transport`` sends the requests; None creates one to ``config``'s server over HTTP.
    """

    def __init__(
        self,
        config: KubeConfig,
        *,
        program: str = "gcushare",
        limits: Limits | None = None,
        observer: Observer | None = None,
        transport: ApiTransport | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._transport = transport or Transport(config, f"{program}/{__version__}", self._limits, observer)
        self._decoders: dict[type[Any], BoundedJsonDecoder[Any]] = {}
        self._eviction_version = ""
        self.config = config

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Repeatable."""
        await self._transport.close()

    async def version(self) -> str:
        """Return the server's version, such as ``v1.36.2``."""
        return self.version_of(await self.get_raw("/version", "version"))

    def version_of(self, body: bytes) -> str:
        """Read the version in an answer of ``/version``.

        Raises:
            NotAnApiServerError: it is from another program.
        """
        try:
            return str(VERSION.read(body)["gitVersion"])
        except (RemoteContractError, KeyError) as error:
            raise self._not_an_api_server("GET /version was answered with no version", body) from error

    async def get_raw(self, path: str, resource: str, *, timeout_s: float | None = None) -> bytes:
        """Read any path, such as a Service's proxy. ``resource`` is its name in metrics."""
        return (await self.get_dated(path, resource, timeout_s=timeout_s))[0]

    async def get_dated(self, path: str, resource: str, *, timeout_s: float | None = None) -> tuple[bytes, str]:
        """As ``get_raw``, together with the Date header: the clock of the server that answered, behind a proxy too."""
        return await self._transport.send(Request("GET", path, "get", resource, timeout_s=timeout_s))

    async def get(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, timeout_s: float | None = None
    ) -> T:
        path = resource.path(name, namespace=namespace)
        return await self._ask(resource, Request("GET", path, "get", resource.plural, timeout_s=timeout_s))

    async def read_pod(self, namespace: str, name: str, *, timeout_s: float) -> Pod:
        return await self.get(PODS, name, namespace=namespace, timeout_s=timeout_s)

    async def pages(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        page_size: int | None = PAGE_SIZE,
        not_older_than: str | None = None,
    ) -> AsyncGenerator[ListOf[msgspec.Raw], None]:
        """Read a collection page by page, with undecoded items. Only one page is in memory at a time.

        ``page_size`` None requests everything at once; a page of very large objects has fewer. ``not_older_than`` None
        reads the newest state. With a version, the server may answer from its cache if that is not older; "0" accepts
        any age. The server would interpret another version together with a page size as exactly that version
        (k8s.io/apiserver, "Semantics for get and list"), so this is a ``ValueError``.

        Raises:
            GoneError: reading the pages took so long that the server no longer has their version.
        """
        if page_size and not_older_than not in (None, "0"):
            raise ValueError(f"page size {page_size} with version {not_older_than}: only that version would be read")
        patience, size = _PATIENCE, page_size or 0
        at = {} if not_older_than is None else {"resourceVersion": not_older_than}
        while True:
            query = {**selector.query(), **({"limit": str(size)} if size else {}), **at}
            path = with_query(resource.path(namespace=selector.namespace), query)
            may_be_less = size > 1 or "resourceVersion" in at
            most = self._limits.page_bytes if may_be_less else MAX_ANSWER_BYTES
            request = Request("GET", path, "list", resource.plural, timeout_s=self._limits.list_page_s, most_bytes=most)
            try:
                body, _ = await self._transport.send(request)
            except AnswerTooLargeError:
                if not may_be_less:
                    raise
                size = max(1, (size or PAGE_SIZE) // _LESS)
                at.pop("resourceVersion", None)  # A server that answers from its cache leaves out the limit.
                continue
            except RetryableError as error:
                if error.delay_s is None or not patience:
                    raise
                patience -= 1
                await asyncio.sleep(error.delay_s)
                continue
            patience = _PATIENCE
            if page_size and len(body) < most // _LESS:
                size = min(page_size, 2 * size)
            try:
                page = PAGE.read(body)
            except RemoteContractError as error:
                raise self._not_an_api_server(f"{request.attempt.text} was answered with no list", body) from error
            yield page
            if not (token := page.metadata.continue_):
                return
            at = {"continue": token}  # It contains its version and excludes the parameter.

    async def list_all(
        self, resource: Resource[T], selector: Selector = EVERYTHING, *, page_size: int | None = PAGE_SIZE
    ) -> list[T]:
        """Read a whole collection. Use ``pages`` or a ``Reflector`` for large ones."""
        attempt = FailedRequest(f"GET {resource.path(namespace=selector.namespace)}", False)
        found: list[T] = []
        async with aclosing(self.pages(resource, selector, page_size=page_size)) as pages:
            async for page in pages:
                found.extend(self._decode(resource.type, item, attempt) for item in page.entries)
        return found

    async def newest_version(self, resource: Resource[Any], selector: Selector = EVERYTHING) -> str:
        """Return a collection's present version, from a list of one object read from the newest state."""
        async with aclosing(self.pages(resource, selector, page_size=1)) as pages:
            async for page in pages:
                return page.metadata.resource_version
        raise RemoteContractError(f"GET {resource.path(namespace=selector.namespace)} was answered with no page")

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float,
        stall_s: float,
    ) -> AsyncIterator[AsyncIterator[RawWatchEvent]]:
        """Watch a collection from a version on. The server ends the stream after about ``timeout_s``.

        Bookmarks are enabled. Servers send one about every minute, so ``stall_s`` without a byte means that the
        connection is dead.

        Raises:
            GoneError: ``resource_version`` is too old. List again.
        """
        query = {
            **selector.query(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_s))),
        }
        path = with_query(resource.path(namespace=selector.namespace), query)
        request = Request("GET", path, "watch", resource.plural)
        async with (
            self._transport.stream(request, stall_s) as chunks,
            aclosing(watch_events(chunks, request.attempt)) as events,
        ):
            yield events

    async def create(
        self, resource: Resource[T], body: object, *, namespace: str | None = None, timeout_s: float | None = None
    ) -> T:
        """Create an object.

        Raises:
            AlreadyExistsError: an object with this name exists.
            UnknownOutcomeError: the object may have been created.
        """
        path = resource.path(namespace=namespace)
        request = Request("POST", path, "create", resource.plural, _ENCODER.encode(body), _JSON, timeout_s)
        return await self._ask(resource, request)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Patch,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """Patch an object or its ``subresource``, and return the new state.

        Raises:
            ConflictError: a resourceVersion in the patch is not the object's.
            UnknownOutcomeError: the object may have been changed. It is safe to repeat a merge patch.
        """
        path = resource.path(name, namespace=namespace, subresource=subresource)
        body = _ENCODER.encode(patch.body)
        return await self._ask(
            resource, Request("PATCH", path, "patch", resource.plural, body, patch.kind.value, timeout_s)
        )

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str | None = None,
        precondition: Precondition = NO_PRECONDITION,
        grace_s: int | None = None,
    ) -> None:
        """Delete an object, or start its graceful deletion.

        Raises:
            ConflictError: the precondition does not hold.
        """
        path = resource.path(name, namespace=namespace)
        body = _ENCODER.encode(patches.delete_options(precondition, grace_s))
        await self._transport.send(Request("DELETE", path, "delete", resource.plural, body, _JSON))

    async def bind_pod(
        self,
        pod: PodRef,
        node: str,
        annotations: Mapping[str, str],
        *,
        resource_version: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """Bind a pod and write its record, in one request that does both or neither.

        If ``resource_version`` is not empty, the pod must still have it. ``timeout_s`` is also sent to the server,
        which gives up by then, so that the request cannot take effect later.

        Raises:
            ConflictError: the pod is bound already, is being deleted, has changed, or is another pod of that name.
            NotFoundError: the pod does not exist.
            UnknownOutcomeError: the pod may be bound. Read it before you decide again.
        """
        path = PODS.path(pod.name, namespace=pod.namespace, subresource="binding")
        if timeout_s is not None:
            path += f"?timeout={max(1, int(timeout_s * 1000))}ms"
        body = _ENCODER.encode(patches.binding(pod, node, annotations, resource_version))
        await self._transport.post(Request("POST", path, "bind", PODS.plural, body, _JSON, timeout_s))

    async def evict_pod(self, pod: PodRef) -> None:
        """Evict a pod, unless a disruption budget forbids it. Uses the policy version that the server supports.

        Raises:
            EvictionRefusedError: a budget does not allow it now, or several budgets cover the pod.
            ConflictError: it is another pod of that name.
            NotFoundError: the pod does not exist.
            UnknownOutcomeError: the pod may be evicted. It is safe to repeat the request.
        """
        path = PODS.path(pod.name, namespace=pod.namespace, subresource="eviction")
        if not self._eviction_version:
            self._eviction_version = eviction_version(await self.version())
        body = _ENCODER.encode(patches.eviction(pod, self._eviction_version))
        await self._transport.send(Request("POST", path, "evict", PODS.plural, body, _JSON))

    async def patch_pod_annotations(
        self, pod: PodRef, annotations: Mapping[str, str | None], *, timeout_s: float | None = None
    ) -> Pod:
        """Set annotations of exactly this pod; a value of None removes one. Repeatable.

        It patches the status subresource, which accepts metadata and keeps the spec: a caller needs no right to change
        what a pod runs. Source: ``podStatusStrategy.PrepareForUpdate`` in pkg/registry/core/pod of Kubernetes 1.20 and
        1.36.

        Raises:
            ConflictError: another pod has that name now.
            NotFoundError: the pod does not exist.
        """
        patch = patches.annotations_patch(annotations, Precondition(pod.uid))
        try:
            return await self.patch(
                PODS, pod.name, patch, namespace=pod.namespace, subresource="status", timeout_s=timeout_s
            )
        except InvalidError as error:
            # The server answers 422 to a patch with another uid, as to any change of an immutable field.
            if "metadata.uid" in error.fields:
                raise ConflictError(f"pod {pod.namespace}/{pod.name} is no longer uid {pod.uid!r}: {error}") from error
            raise

    async def patch_node_annotations(self, name: str, annotations: Mapping[str, str | None]) -> Node:
        """Set annotations of a node; a value of None removes one. Repeatable.

        It patches the status subresource, as for pods: a caller needs no right to change taints.
        """
        return await self.patch(
            NODES, name, patches.annotations_patch(annotations, NO_PRECONDITION), subresource="status"
        )

    async def patch_node_capacity(self, name: str, capacity: Mapping[str, int | None]) -> Node:
        """Set resources in a node's status.capacity; a value of None removes one. Repeatable.

        The kubelet copies them to allocatable within its next status update, and zeroes them when it registers again.
        """
        return await self.patch(NODES, name, patches.capacity_patch(capacity), subresource="status")

    async def _ask(self, resource: Resource[T], request: Request) -> T:
        body, _ = await self._transport.send(request)
        try:
            KIND.read(body)
        except RemoteContractError as error:
            text = f"{request.attempt.text} was answered with no {resource.type.__name__}"
            raise self._not_an_api_server(text, body) from error
        return self._decode(resource.type, body, request.attempt)

    def _not_an_api_server(self, text: str, body: bytes) -> NotAnApiServerError:
        return NotAnApiServerError(f"{text}, but with {describe_content(body)}; {self.config.address}")

    def _decode(self, kind: type[T], body: bytes | msgspec.Raw, attempt: FailedRequest) -> T:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = object_decoder(kind)
        try:
            decoded: T = decoder.read(body)
        except RemoteContractError as error:
            raise RemoteContractError(f"{attempt.text} was answered with no {kind.__name__}: {error}") from error
        return decoded


def object_decoder(kind: type[T]) -> BoundedJsonDecoder[T]:
    """The decoder of one kind of object. The depth of dictionaries is bounded, because their readers walk them."""
    max_depth = MAX_DEPTH_OF_PLAIN if kind is dict else None
    return BoundedJsonDecoder(kind, f"a {kind.__name__}", limit_bytes=MAX_ANSWER_BYTES, max_depth=max_depth)
