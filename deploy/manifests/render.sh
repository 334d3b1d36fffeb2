#!/usr/bin/env bash
# Render the charts into plain manifests, for clusters without helm: render.sh [DIRECTORY], by default this one.
#
#   VENDOR/gcushare.yaml       everything, for: kubectl apply -f
#   VENDOR/admission.yaml      the admission policies, from Kubernetes 1.30
#   VENDOR/before-delete.yaml  the Job that puts every kube-scheduler back: apply it, and wait for it, before deleting
#   VENDOR/after-delete.yaml   the Job that cleans the Nodes: apply it after deleting
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:-$here}
helm=${HELM:-helm}

# What only helm reads goes; its links between the charts are said on stderr by old versions of it.
plain() {
    sed -e '/^  annotations:$/{N;/helm\.sh\/hook/d;}' -e '/helm\.sh\//d' -e '/app\.kubernetes\.io\/managed-by: Helm/d' \
        -e 's/^# Source: gcushare\/charts\//# Source: /'
}

render() { # render VENDOR KUBE-VERSION OPTION...
    local vendor=$1 version=$2
    shift 2
    "$helm" template gcushare "$here/../gcushare" --namespace kube-system --kube-version "$version" \
        --set "global.vendor=$vendor" "$@" 2>/dev/null | plain
}

for vendor in enflame aliyun; do
    mkdir -p "$target/$vendor"
    device=charts/gcushare-device-plugin-chart/templates
    extender=charts/gcushare-scheduler-extender-chart/templates
    render $vendor v1.29.0 --no-hooks >"$target/$vendor/gcushare.yaml"
    render $vendor v1.30.0 --show-only $extender/validatingadmissionpolicy.yaml >"$target/$vendor/admission.yaml"
    render $vendor v1.29.0 --show-only $extender/uninstall.yaml >"$target/$vendor/before-delete.yaml"
    render $vendor v1.29.0 --show-only $device/cleanup.yaml >"$target/$vendor/after-delete.yaml"
done
