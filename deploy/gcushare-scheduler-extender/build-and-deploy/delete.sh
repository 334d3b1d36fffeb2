#!/usr/bin/env bash
# Restore every kube-scheduler, then uninstall the chart. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A package that was unpacked alone has the sources in its own folder.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
# shellcheck source=deploy/lib/releases.sh
. "$sources/deploy/lib/releases.sh"
# shellcheck source=deploy/lib/schedulers.sh
. "$sources/deploy/lib/schedulers.sh"
name=gcushare-scheduler-extender
set_common_defaults
force=

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        say "Usage: delete.sh [OPTION...]

Restore every kube-scheduler and uninstall $name. Running pods keep running.

$COMMON_HELP
  --force              uninstall even if a kube-scheduler could not be restored"
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
refuse_foreign "$name"
options=()
changed=$(kubectl get configmap "$state_map" --namespace "$namespace" --ignore-not-found -o name) ||
    fail "kubectl could not check whether kube-schedulers were changed" "check that you may read ConfigMaps in $namespace, and run $0 again"
if [ -n "$changed" ]; then
    started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    kubectl patch configmap "$state_map" --namespace "$namespace" --type merge --patch '{"data":{"mode":"recover"}}' >/dev/null ||
        fail "the desired state could not be set to recover" "check that you may change ConfigMaps in $namespace"
    status=0
    wait_for_schedulers recovered || status=$?
    show_manager_lines "$started"
    if [ "$status" = 1 ]; then
        [ -n "$force" ] || fail "not every kube-scheduler is restored; nothing was uninstalled" \
            "fix the reasons above and run $0 again; for a node that no longer exists: kubectl delete node NAME; or give --force, and then run on each node: gcushare-config-manager recover"
        options=(--no-hooks)
    fi
fi
say "uninstall gcushare scheduler extender release in namespace:$namespace start..."
# Bash before 4.4 takes an empty array for an unset variable.
uninstall_release "$name" ${options[@]+"${options[@]}"}
# The programs created these; nothing uses them now.
kubectl delete lease "$name" "$state_map" --namespace "$namespace" --ignore-not-found
