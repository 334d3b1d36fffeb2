#!/usr/bin/env bash
# Put every kube-scheduler back, then uninstall the chart. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# In a package that was carried here alone the sources lie below it.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
# shellcheck source=deploy/lib/schedulers.sh
. "$sources/deploy/lib/schedulers.sh"
name=gcushare-scheduler-extender
set_common_defaults
force=

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        say "Usage: delete.sh [OPTION...]

Put every kube-scheduler back and uninstall $name. Running pods are left alone.

$COMMON_HELP
  --force              uninstall even when a kube-scheduler could not be put back"
        exit 0
        ;;
    --force)
        force=yes
        shift
        ;;
    --namespace | --timeout)
        common_option "$@"
        shift 2
        ;;
    *) fail "unknown option '$1'" "see $0 --help" ;;
    esac
done

check_cluster
refuse_other_release "$name"
options=()
changed=$(kubectl get configmap "$state_map" --namespace "$namespace" --ignore-not-found -o name) ||
    fail "it cannot be seen whether kube-schedulers were changed" "check that you may read ConfigMaps in $namespace, and run $0 again"
if [ -n "$changed" ]; then
    started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    kubectl patch configmap "$state_map" --namespace "$namespace" --type merge --patch '{"data":{"mode":"recover"}}' >/dev/null ||
        fail "the desired state could not be set to recover" "check that you may change ConfigMaps in $namespace"
    status=0
    wait_for_schedulers recovered || status=$?
    show_manager_lines "$started"
    if [ "$status" = 1 ]; then
        [ -n "$force" ] || fail "not every kube-scheduler is put back; nothing was uninstalled" \
            "mend the reasons above and run $0 again; a node that is gone for good: kubectl delete node NAME; or --force, and then on each node: gcushare-config-manager recover"
        options=(--no-hooks)
    fi
fi
say "uninstall gcushare scheduler extender release in namespace:$namespace start..."
# Bash before 4.4 takes an empty array for an unset variable.
uninstall_release "$name" ${options[@]+"${options[@]}"}
# The programs made these themselves; they are not in use any more.
kubectl delete lease "$name" "$state_map" --namespace "$namespace" --ignore-not-found
