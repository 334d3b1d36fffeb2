"""Write into the charts and scripts of deploy/ what they must know of vendors and placement policies, and share.

    python -m scripts.vendors [DEPLOY]    DEPLOY: the folder, by default this repository's

The charts' ``templates/_vendors.tpl``, ``deploy/lib/common.tpl`` as their ``_common.tpl`` (a chart holds all that it
needs), the lists of names in their schemas, and ``deploy/lib/vendors.sh``. Helm reads a
schema as it is, and a cluster checks annotations without our programs, so both have to list the names. What helm
renders from them for clusters without helm is ``deploy/manifests/render.sh``'s.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path

from gcushare.core.placement import POLICIES
from gcushare.core.units import MEMORY_UNIT_NAMES
from gcushare.core.whole_cards import WHOLE_CARD_POLICIES
from gcushare.vendors import DEFAULT_VENDOR, VENDORS, Vendor
from gcushare.wire import annotations as keys

ROOT = Path(__file__).parents[1]
BOTH = "both"
"""In every ``--vendor`` that takes it: all of them."""
_CHARTS = {
    "gcushare-device-plugin": "gcushare-device-plugin/build-and-deploy/gcushare-device-plugin-chart",
    "gcushare-scheduler-extender": "gcushare-scheduler-extender/build-and-deploy/gcushare-scheduler-extender-chart",
}


def chart_words() -> dict[str, object]:
    """What the templates read of the vendors, in their order, and of the words that a pod may choose."""
    return {
        "order": [vendor.name for vendor in VENDORS],
        "vendors": {vendor.name: _words(vendor) for vendor in VENDORS},
        "policies": {
            keys.NODE_POLICY: list(POLICIES),
            keys.CARD_POLICY: list(POLICIES),
            keys.WHOLE_CARD_POLICY: list(WHOLE_CARD_POLICIES),
            keys.COMPUTE_SHARE: [keys.PROPORTIONAL],
            keys.WHEN_IDLE: list(keys.WHEN_IDLE_WORDS),
            keys.MEMORY_UNIT: list(MEMORY_UNIT_NAMES),
        },
    }


def _words(vendor: Vendor) -> dict[str, object]:
    return {
        "nameSuffix": vendor.name_suffix,
        "nodeLabel": vendor.label_key,
        "memoryResource": vendor.memory_resource,
        "countResource": vendor.count_resource,
        "wholeCardResource": vendor.whole_card_resource,
        "extenderResource": vendor.claims.extender_resource,
        "defaultUnit": vendor.default_unit,
        "library": vendor.library.name,
        "visible": vendor.environment.visible,
        "cardDevice": vendor.device_nodes.card.replace("{index}", ""),
        "toolNamespaces": list(vendor.tool_namespaces),
        "environment": [{"name": name, "value": value} for name, value in vendor.plugin_environment],
        "urlPrefix": vendor.url_prefix,
        "inventory": vendor.inventory_annotation,
        "record": ",".join(astuple(vendor.record)),
        "claims": {
            "driver": vendor.claims.driver,
            "memoryClass": vendor.claims.memory_class,
            "wholeClass": vendor.claims.whole_class,
            "templatePrefix": vendor.claims.template_prefix,
        },
    }


def write(deploy: Path) -> list[Path]:
    """Bring a deploy folder up to date; returns the files that changed."""
    found = {deploy / "lib/vendors.sh": _shell()}
    common = "{{/* Generated from deploy/lib/common.tpl: make vendors. */}}\n" + (deploy / "lib/common.tpl").read_text()
    for name, folder in _CHARTS.items():
        found[deploy / folder / "templates/_common.tpl"] = common
        text = json.dumps(chart_words(), indent=2)
        found[deploy / folder / "templates/_vendors.tpl"] = (
            f'{{{{/* Generated from gcushare.vendors: make vendors. */}}}}\n{{{{- define "{name}.words" -}}}}\n{text}\n'
            "{{- end -}}\n"
        )
    for folder in (*_CHARTS.values(), "gcushare"):
        schema = deploy / folder / "values.schema.json"
        found[schema] = _with_names(schema.read_text())
    changed = [path for path, text in found.items() if not path.exists() or path.read_text() != text]
    for path in changed:
        path.write_text(found[path])
    return changed


def _with_names(schema: str) -> str:
    """A schema of values with today's names in its lists."""
    names, libraries = [v.name for v in VENDORS], [v.library.name for v in VENDORS]
    lists: tuple[tuple[str, Iterable[str]], ...] = (
        (r'"vendor": \{"enum": ', (*names, BOTH)),
        (r'"source": \{"enum": ', ("auto", *libraries, "simulated")),
        (r'"propertyNames": \{"enum": ', names),
        (r'"nodePolicy": \{"enum": ', POLICIES),
        (r'"cardPolicy": \{"enum": ', POLICIES),
        (r'"wholeCardPolicy": \{"enum": ', WHOLE_CARD_POLICIES),
    )
    for start, words in lists:
        schema = re.sub(rf"({start})\[[^]]*\]", rf"\g<1>{json.dumps(list(words))}", schema)
    return re.sub(r'"\^\([a-z|]*\)\$": \{', f'"^({"|".join(libraries)})$": {{', schema)


def _shell() -> str:
    def table(name: str, values: dict[str, str]) -> str:
        return f"declare -A {name}=({' '.join(f'[{key}]={value}' for key, value in values.items())})\n"

    return (
        "# Generated from gcushare.vendors: make vendors.\n"
        "# shellcheck shell=bash disable=SC2034\n"
        f"VENDORS=({' '.join(vendor.name for vendor in VENDORS)})\n"
        f"DEFAULT_VENDOR={DEFAULT_VENDOR.name}\n"
        + table("NODE_LABEL", {vendor.name: vendor.label_key for vendor in VENDORS})
        + table("DEVICE_WORD", {vendor.name: vendor.device_word for vendor in VENDORS})
        + table("URL_PREFIX", {vendor.name: vendor.url_prefix for vendor in VENDORS})
    )


def main() -> int:
    """Write them, and name what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("deploy", type=Path, nargs="?", default=ROOT / "deploy", help="the folder with the charts")
    deploy = parser.parse_args().deploy
    for path in write(deploy):
        print(path.relative_to(deploy))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
