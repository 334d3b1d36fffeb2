#!/usr/bin/env bash
# Render the charts into plain manifests, for clusters without helm: render.sh [DIRECTORY], by default this one.
#
# NAMESPACE=name render.sh DIRECTORY: for another namespace than kube-system. kustomize's `namespace:` would leave the old
# one in flags and admission policies, where it is part of a text.
#
#   VENDOR/gcushare.yaml       everything, for: kubectl apply -f
#   VENDOR/admission.yaml      the admission policies, from Kubernetes 1.30
#   VENDOR/claims.yaml         both of these, and cards as claims for the nodes and namespaces that are labelled for it, from
#                              Kubernetes 1.36: apply it in place of them
#   VENDOR/before-delete.yaml  the Job that puts every kube-scheduler back: apply it, and wait for it, before deleting
#   VENDOR/after-delete.yaml   the Job that cleans the Nodes: apply it after deleting
#   gpushare/...               the files of Aliyun's gpushare under their own names, for schedulers that are changed by hand
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib/usage.sh
. "$here/../lib/usage.sh"
own_arguments 0 1 "$@"
# Where .ci/run puts helm; used if there is no other.
cached=$here/../../.cache/node_modules/.bin/helm
helm=${HELM:-$(command -v helm || echo "$cached")}
command -v "$helm" >/dev/null || {
    echo "render.sh: helm was not found (looked for $helm); install helm 3, or name it in HELM" >&2
    exit 1
}
# The target is not touched before everything is rendered.
target=$(mktemp -d)
errors=$(mktemp)
trap 'rm -rf "$target" "$errors"' EXIT
# shellcheck source=deploy/lib/vendors.sh
. "$here/../lib/vendors.sh"

# Remove what only helm reads. Old versions of helm report the links between the charts on stderr.
plain() {
    sed -e '/^  annotations:$/{N;/helm\.sh\/hook/d;}' -e '/helm\.sh\//d' -e '/app\.kubernetes\.io\/managed-by: "Helm"/d' \
        -e 's/^# Source: gcushare\/charts\//# Source: /'
}

# template OPTION...: print a rendered chart; fails with helm's own error.
template() {
    "$helm" template "$@" --namespace "${NAMESPACE:-kube-system}" 2>"$errors" | plain || { cat "$errors" >&2 && exit 1; }
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
    render "$vendor" v1.36.0 --no-hooks --set global.claims.enabled=true >"$target/$vendor/claims.yaml"
    render "$vendor" v1.30.0 --show-only $extender/validatingadmissionpolicy.yaml \
        --show-only $device/pod-variables.yaml >"$target/$vendor/admission.yaml"
    render "$vendor" v1.29.0 --show-only $extender/uninstall.yaml >"$target/$vendor/before-delete.yaml"
    render "$vendor" v1.29.0 --show-only $device/cleanup.yaml >"$target/$vendor/after-delete.yaml"
done

# What `kubectl get pod | grep gpushare` finds has upstream's names, and what `-l app=gpushare` finds its labels. The
# Service keeps our name: the commands look for it.
part() { # part CHART FILE... OPTION...: these templates of one chart
    local chart=$1 show=()
    shift
    while [ "${1#*.yaml}" != "$1" ]; do show+=(--show-only "templates/$1") && shift; done
    template gpushare "$here/../$chart/build-and-deploy/$chart-chart" --kube-version v1.29.0 --set vendor=aliyun "${show[@]}" "$@"
}

# What the reader of gpushare's instructions must do first: there the images exist already.
before() { # before NAME MANIFEST: the comment on top of a manifest that needs the image of NAME
    local image
    image=$(sed -n '/^ *image: /{s/^ *image: "\(.*\)"/\1/p;q;}' "$2")
    cat <<HEADER
# Run this first: the pods of this file need the image
#   $image
# Without it they stay in ImagePullBackOff. If no registry has it, build it and save it as images/$1.tar:
#   deploy/$1/build-and-deploy/build-image.sh        (or ./build-image.sh in its package)
# Then load that file on every node, by one of:
#   ctr --namespace k8s.io images import $1.tar
#   docker load --input $1.tar
# For a registry of yours: build-image.sh --repository REGISTRY/PATH --tag TAG; push it, and change "image:" below.
HEADER
    cat "$2"
}

mkdir -p "$target/gpushare/config"
plugin=(--set deployName=gpushare-device-plugin-ds)
part gcushare-device-plugin serviceaccount.yaml clusterrole.yaml clusterrolebinding.yaml "${plugin[@]}" \
    >"$target/gpushare/device-plugin-rbac.yaml"
part gcushare-device-plugin daemonset.yaml "${plugin[@]}" --set podLabels.app=gpushare \
    --set podLabels.component=gpushare-device-plugin --set podLabels.name=gpushare-device-plugin-ds |
    sed 's/gpushare-device-plugin-ds-aliyun/gpushare-device-plugin-ds/' >"$target/plugin.yaml"
before gcushare-device-plugin "$target/plugin.yaml" >"$target/gpushare/device-plugin-ds.yaml"
extender=(--set nameOverride=gpushare-schd-extender --set scheduler.mode=none --set service.type=NodePort)
{
    part gcushare-scheduler-extender serviceaccount.yaml clusterrole.yaml clusterrolebinding.yaml role.yaml rolebinding.yaml \
        deployment.yaml "${extender[@]}" --set deployName=gpushare-schd-extender --set podLabels.app=gpushare \
        --set podLabels.component=gpushare-schd-extender
    part gcushare-scheduler-extender service.yaml "${extender[@]}" |
        sed 's/^  labels:$/&\n    app: gpushare\n    component: gpushare-schd-extender/'
} >"$target/extender.yaml"
before gcushare-scheduler-extender "$target/extender.yaml" >"$target/gpushare/config/gpushare-schd-extender.yaml"
rm "$target/plugin.yaml" "$target/extender.yaml"

mkdir -p "${1:-$here}"
cp -R "$target/." "${1:-$here}/"
