"""Objects of ``resource.k8s.io/v1``, as far as we read or write them: slices, claims and their templates.

Source: the Kubernetes API reference, resource.k8s.io/v1, as 1.34 to 1.36 send it.
"""

from __future__ import annotations

import msgspec

API_VERSION = "resource.k8s.io/v1"


class DraObject(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of these objects: camelCase on the wire, unknown fields skipped, defaults left out when written."""
