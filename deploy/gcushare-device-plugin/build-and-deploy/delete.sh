#!/usr/bin/env bash
# Uninstall the chart and take the label off the nodes; pods that hold cards go on. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# In a package that was carried here alone the sources lie below it.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
name=gcushare-device-plugin
set_common_defaults

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        labels=$(for each in "${VENDORS[@]}"; do printf '%s=true, ' "${NODE_LABEL[$each]}"; done)
        say "Usage: delete.sh [OPTION...]

Uninstall $name. Running pods are left alone. The labels of all vendors
(${labels%, }) are taken off every node.

$COMMON_HELP"
        exit 0
        ;;
    --namespace | --timeout) common_option "$@" ;;
    *) fail "unknown option '$1'" "see $0 --help" ;;
    esac
    shift 2
done

check_cluster
refuse_other_release "$name"
say "uninstall gcushare device plugin release in namespace:$namespace start..."
uninstall_release "$name"
for label in "${NODE_LABEL[@]}"; do
    labelled=$(node_names "$label=true") || exit 1
    # shellcheck disable=SC2086 # names separated by lines
    [ -z "$labelled" ] || kubectl label node $labelled "$label-" || fail "the label $label was not removed" "check that you may change nodes, and run $0 again"
done
