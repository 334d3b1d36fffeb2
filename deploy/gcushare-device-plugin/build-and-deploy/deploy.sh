#!/usr/bin/env bash
# Bring the image to the nodes, label the nodes that share their cards, install the chart, and wait for the plugin on every
# labelled node. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A package that was unpacked alone has the sources in its own folder.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
# shellcheck source=deploy/lib/images.sh
. "$sources/deploy/lib/images.sh"
# shellcheck source=deploy/lib/releases.sh
. "$sources/deploy/lib/releases.sh"
# shellcheck source=deploy/lib/plugins.sh
. "$sources/deploy/lib/plugins.sh"
name=gcushare-device-plugin
set_common_defaults
nodes=${GCUSHARE_NODES:-}
memory_unit=${GCUSHARE_MEMORY_UNIT:-}

usage() {
    say "Usage: deploy.sh [OPTION...]

Install $name. Every answer is an option too, for unattended use.

  --nodes 'NAME...'    nodes that share their cards, or all (GCUSHARE_NODES; asked for if neither is given); with
                       --vendor both each of them gets the labels of both
  --memory-unit UNIT   1, 0.1, 0.01, 0.001, GiB, MiB or auto (GCUSHARE_MEMORY_UNIT, from the values)
$COMMON_HELP
$IMAGE_HELP
$DEPLOY_HELP"
}

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --nodes) take_value "$1" $# && nodes=$2 ;;
    --memory-unit) take_value "$1" $# && memory_unit=$2 ;;
    *) common_option "$@" || fail "unknown option '$1'" "see $0 --help" ;;
    esac
    shift 2
done

# ask_nodes: set nodes from the keyboard, unless an option has set it.
ask_nodes() {
    say "Cluster node name list:"
    node_names kubernetes.io/os=linux
    [ -z "$nodes" ] || return 0
    printf 'Please enter gcushare node name and separated by space(if all nodes use shared GCU, you can just press Enter): '
    read -r nodes || fail "no answer was given which nodes share their cards" "give --nodes 'NAME...', or --nodes all"
    printf '\n'
    [ -n "$nodes" ] || nodes=all
}

label_nodes() { # label_nodes NODE...: with the label of every vendor of the release
    local each label chosen=("$@") every
    if [ "${chosen[*]}" = all ]; then
        every=$(node_names kubernetes.io/os=linux) || exit 1
        mapfile -t chosen <<<"$every"
    fi
    kubectl get node "${chosen[@]}" >/dev/null || fail "not every one of these is a node: ${chosen[*]}" "give names that 'kubectl get nodes' lists"
    for each in $vendors; do
        label=${NODE_LABEL[$each]}=true
        kubectl label --overwrite node "${chosen[@]}" "$label" || fail "the nodes could not be labelled $label" "check that you may change nodes"
    done
}

chart=$here/$name-chart
file=$here/images/$name.tar
check_cluster
refuse_foreign "$name"
add_image_arguments "$file"
[ -z "$memory_unit" ] || helm_arguments+=(--set-string "memoryUnit=$memory_unit")
# Values that do not fit stop here, before anything is changed.
manifest=$(render "$name" "$chart" --show-only templates/daemonset.yaml) || exit 1
vendors=$(vendors_of "$manifest")
deliver "$(image_of "$manifest")" "$file"
ask_nodes
# shellcheck disable=SC2086 # names separated by spaces
label_nodes $nodes
say "deploy gcushare device plugin release start..."
install_release "$name" "$chart"
say "wait for the plugin on every labelled node, at most $timeout for each vendor..."
failed=
for each in $vendors; do
    wait_for_plugins "$each" || failed+=" ${NODE_LABEL[$each]}-"
done
[ -z "$failed" ] || fail "the plugin did not start on every labelled node" \
    "fix the reasons above and run $0 again; or take the label off a node without such cards: kubectl label node NODE$failed"
