"""The names that each vendor's cards use on the wire, one frozen value per vendor. Imports no other package of ours.

To add a vendor, add a module with its ``VENDOR`` and the module's name below; docs/architecture.md has the other steps.
"""

from importlib import import_module

from gcushare.vendors.vendor import Vendor

_MODULES = ("enflame", "aliyun")
"""The vendors in the order of tables and of ``--cards auto``. The first one is the default of every program."""

VENDORS: tuple[Vendor, ...] = tuple(import_module(f"{__name__}.{module}").VENDOR for module in _MODULES)
VENDORS_BY_NAME: dict[str, Vendor] = {vendor.name: vendor for vendor in VENDORS}
DEFAULT_VENDOR = VENDORS[0]

ENFLAME, ALIYUN = VENDORS_BY_NAME["enflame"], VENDORS_BY_NAME["aliyun"]
"""For tests, and for code that concerns one vendor only, such as its other device plugins."""

__all__ = ["ALIYUN", "DEFAULT_VENDOR", "ENFLAME", "VENDORS", "VENDORS_BY_NAME", "Vendor"]
