"""The words of each vendor's family on the wire, one frozen value each. It imports nothing of ours.

Adding a family is one file here and one card source in ``gcushare.cards``.
"""

from gcushare.vendors.aliyun import ALIYUN
from gcushare.vendors.enflame import ENFLAME
from gcushare.vendors.vendor import Vendor

VENDORS: tuple[Vendor, ...] = (ENFLAME, ALIYUN)
VENDORS_BY_NAME: dict[str, Vendor] = {vendor.name: vendor for vendor in VENDORS}

__all__ = ["ALIYUN", "ENFLAME", "VENDORS", "VENDORS_BY_NAME", "Vendor"]
