#!/usr/bin/env bash
# Bring the image to the nodes, install the chart, and wait until every kube-scheduler calls the extender. See --help.
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
# shellcheck source=deploy/lib/schedulers.sh
. "$sources/deploy/lib/schedulers.sh"
name=gcushare-scheduler-extender
set_common_defaults
mode=${GCUSHARE_SCHEDULER_MODE:-}

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        say "Usage: deploy.sh [OPTION...]

Install $name.

  --scheduler-mode MODE config-manager, second-scheduler or none (GCUSHARE_SCHEDULER_MODE, from the values)
$COMMON_HELP
$IMAGE_HELP
$DEPLOY_HELP"
        exit 0
        ;;
    --scheduler-mode) take_value "$1" $# && mode=$2 && one_of "$2" "$1" config-manager second-scheduler none ;;
    *) common_option "$@" || fail "unknown option '$1'" "see $0 --help" ;;
    esac
    shift 2
done

chart=$here/$name-chart
file=$here/images/$name.tar
check_cluster
refuse_foreign "$name"
add_image_arguments "$file"
[ -z "$mode" ] || helm_arguments+=(--set-string "scheduler.mode=$mode")
# Values that do not fit stop here, before anything is changed.
manifest=$(render "$name" "$chart" --show-only templates/deployment.yaml) || exit 1
deliver "$(image_of "$manifest")" "$file"
say "deploy gcushare scheduler extender release start..."
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
install_release "$name" "$chart"
changed=$(kubectl get configmap "$state_map" --namespace "$namespace" --ignore-not-found -o name) ||
    fail "kubectl could not check whether kube-schedulers are changed" "check that you may read ConfigMaps in $namespace, and run $0 again"
if [ -z "$changed" ]; then
    say "no kube-scheduler is configured by this release: see the notes above"
    exit 0
fi
status=0
wait_for_schedulers applied || status=$?
show_manager_lines "$started"
case $status in
0) scheduler_reports | awk '{ print "node " $1 ": kube-scheduler calls the extender" }' ;;
2) fail "no node is labelled as control plane, so no kube-scheduler was configured" \
    "on a managed cluster use --scheduler-mode second-scheduler; see docs/install.md" ;;
*) fail "not every kube-scheduler calls the extender of this version; one that does not is as it was before" \
    "see the reasons above and: kubectl logs -n $namespace -l app.kubernetes.io/component=config-manager; then run $0 again" ;;
esac
