#!/usr/bin/env bash
# Render the charts into plain manifests, for clusters without helm: render.sh [DIRECTORY], by default this one.
#
#   VENDOR/gcushare.yaml       everything, for: kubectl apply -f
#   VENDOR/admission.yaml      the admission policies, from Kubernetes 1.30
#   VENDOR/before-delete.yaml  the Job that puts every kube-scheduler back: apply it, and wait for it, before deleting
#   VENDOR/after-delete.yaml   the Job that cleans the Nodes: apply it after deleting
#   gpushare/...               the files of Aliyun's gpushare under their own names, for schedulers that are changed by hand
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Where .ci/run puts it, if there is no other.
cached=$here/../../.cache/node_modules/.bin/helm
helm=${HELM:-$(command -v helm || echo "$cached")}
command -v "$helm" >/dev/null || {
    echo "render.sh: helm was not found (looked for $helm); install helm 3, or name it in HELM" >&2
    exit 1
}
# Nothing there is touched before all of it could be rendered.
target=$(mktemp -d)
said=$(mktemp)
trap 'rm -rf "$target" "$said"' EXIT
# shellcheck source=deploy/lib/vendors.sh
. "$here/../lib/vendors.sh"

# What only helm reads goes; its links between the charts are said on stderr by old versions of it.
plain() {
    sed -e '/^  annotations:$/{N;/helm\.sh\/hook/d;}' -e '/helm\.sh\//d' -e '/app\.kubernetes\.io\/managed-by: Helm/d' \
        -e 's/^# Source: gcushare\/charts\//# Source: /'
}

# template OPTION...: what helm makes of a chart for this namespace; helm's words where it fails.
template() {
    "$helm" template "$@" --namespace kube-system 2>"$said" | plain || { cat "$said" >&2 && exit 1; }
}

render() { # render VENDOR KUBE-VERSION OPTION...
    local vendor=$1 version=$2
    shift 2
    template gcushare "$here/../gcushare" --kube-version "$version" --set "global.vendor=$vendor" "$@"
}

for vendor in "${VENDORS[@]}"; do
    mkdir -p "$target/$vendor"
    device=charts/gcushare-device-plugin-chart/templates
    extender=charts/gcushare-scheduler-extender-chart/templates
    render "$vendor" v1.29.0 --no-hooks >"$target/$vendor/gcushare.yaml"
    render "$vendor" v1.30.0 --show-only $extender/validatingadmissionpolicy.yaml >"$target/$vendor/admission.yaml"
    render "$vendor" v1.29.0 --show-only $extender/uninstall.yaml >"$target/$vendor/before-delete.yaml"
    render "$vendor" v1.29.0 --show-only $device/cleanup.yaml >"$target/$vendor/after-delete.yaml"
done

# What `kubectl get pod | grep gpushare` finds has upstream's names. The Service keeps ours: the commands look for it.
part() { # part CHART FILE... OPTION...: these templates of one chart
    local chart=$1 show=()
    shift
    while [ "${1#*.yaml}" != "$1" ]; do show+=(--show-only "templates/$1") && shift; done
    template gpushare "$here/../$chart/build-and-deploy/$chart-chart" --kube-version v1.29.0 --set vendor=aliyun "${show[@]}" "$@"
}

mkdir -p "$target/gpushare/config"
plugin=(--set deployName=gpushare-device-plugin-ds)
part gcushare-device-plugin serviceaccount.yaml clusterrole.yaml clusterrolebinding.yaml "${plugin[@]}" \
    >"$target/gpushare/device-plugin-rbac.yaml"
part gcushare-device-plugin daemonset.yaml "${plugin[@]}" |
    sed 's/gpushare-device-plugin-ds-aliyun/gpushare-device-plugin-ds/' >"$target/gpushare/device-plugin-ds.yaml"
extender=(--set nameOverride=gpushare-schd-extender --set scheduler.mode=none --set service.type=NodePort)
{
    part gcushare-scheduler-extender serviceaccount.yaml clusterrole.yaml clusterrolebinding.yaml role.yaml rolebinding.yaml \
        deployment.yaml "${extender[@]}" --set deployName=gpushare-schd-extender
    part gcushare-scheduler-extender service.yaml "${extender[@]}"
} >"$target/gpushare/config/gpushare-schd-extender.yaml"

mkdir -p "${1:-$here}"
cp -R "$target/." "${1:-$here}/"
