"""The words of each vendor's family on the wire, one frozen value each. It imports nothing of ours.

A family is a module here with its ``VENDOR``, and that module's name below; docs/architecture.md says what else.
"""

from importlib import import_module

from gcushare.vendors.vendor import Vendor

_MODULES = ("enflame", "aliyun")
"""The families in the order of tables and of ``--cards auto``; the first is the default of every program."""

VENDORS: tuple[Vendor, ...] = tuple(import_module(f"{__name__}.{module}").VENDOR for module in _MODULES)
VENDORS_BY_NAME: dict[str, Vendor] = {vendor.name: vendor for vendor in VENDORS}
DEFAULT_VENDOR = VENDORS[0]

ENFLAME, ALIYUN = VENDORS_BY_NAME["enflame"], VENDORS_BY_NAME["aliyun"]
"""For tests and for what is known of one family alone, such as other programs that serve it."""

__all__ = ["ALIYUN", "DEFAULT_VENDOR", "ENFLAME", "VENDORS", "VENDORS_BY_NAME", "Vendor"]
