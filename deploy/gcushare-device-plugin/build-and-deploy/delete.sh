#!/usr/bin/env bash
# Uninstall the chart and take its label off the nodes; pods that hold cards keep running. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A package that was unpacked alone has the sources in its own folder.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
# shellcheck source=deploy/lib/releases.sh
. "$sources/deploy/lib/releases.sh"
# shellcheck source=deploy/lib/plugins.sh
. "$sources/deploy/lib/plugins.sh"
name=gcushare-device-plugin
set_common_defaults

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        labels=$(for each in "${VENDORS[@]}"; do printf '%s: %s=true, ' "$each" "${NODE_LABEL[$each]}"; done)
        say "Usage: delete.sh [OPTION...]

Uninstall $name. Running pods keep running. Every node loses the label of the vendors that the release serves
(${labels%, }); other labels stay.

$COMMON_HELP
  --vendor VENDOR      take the label of this vendor off too, even if no release serves it: ${vendor_names%, } or both
                       (GCUSHARE_VENDOR)"
        exit 0
        ;;
    --namespace | --timeout | --vendor) common_option "$@" ;;
    *) fail "unknown option '$1'" "see $0 --help" ;;
    esac
    shift 2
done

check_cluster
refuse_foreign "$name"
vendors=
status=$(release_status "$name") || exit 1
if [ -n "$status" ]; then
    manifest=$(helm get manifest "$name" --namespace "$namespace") || fail "helm cannot show what release $name installed" "fix what helm reports above and run $0 again"
    vendors=$(vendors_of "$manifest")
fi
case $vendor in
both) vendors=${VENDORS[*]} ;;
?*) [[ $'\n'$vendors$'\n' == *$'\n'"$vendor"$'\n'* ]] || vendors+=" $vendor" ;;
esac
say "uninstall gcushare device plugin release in namespace:$namespace start..."
uninstall_release "$name"
for each in $vendors; do
    label=${NODE_LABEL[$each]}
    labelled=$(node_names "$label=true") || exit 1
    # shellcheck disable=SC2086 # names separated by lines
    [ -z "$labelled" ] || kubectl label node $labelled "$label-" || fail "the label $label was not removed" "check that you may change nodes, and run $0 --vendor $each"
done
[ -z "$status" ] || exit 0
# What another system labelled must not lose it, so say what is left and how to remove it.
for each in "${VENDORS[@]}"; do
    labelled=$(node_names "${NODE_LABEL[$each]}=true") || exit 1
    [ -z "$labelled" ] || say "the label ${NODE_LABEL[$each]}=true stays on: ${labelled//$'\n'/ } (if gcushare set it, remove it by: $0 --vendor $each)"
done
