# shellcheck shell=bash
# Install, upgrade and uninstall a helm release. Sourced by deploy.sh and delete.sh after common.sh and check_cluster.
# Bash before 4.4 takes an empty array for an unset variable: hence ${name[@]+"${name[@]}"}.
# shellcheck disable=SC2154 # set by the script that sources this, and by common.sh

# release_status NAME: print the status of a release, nothing if there is no such release; fails if that is not known.
release_status() {
    local found
    found=$(helm list --namespace "$namespace" ${list_options[@]+"${list_options[@]}"} --filter "^$1\$" --output json) ||
        fail "helm could not check whether release $1 is installed in namespace $namespace" \
            "fix what helm reports above; it keeps its releases in Secrets of that namespace"
    sed -n 's/.*"status":"\([^"]*\)".*/\1/p' <<<"$found"
}

# install_release NAME CHART: install or upgrade, or continue what an interrupted run left.
install_release() {
    local status history
    status=$(release_status "$1") || exit 1
    case $status in
    pending-install | uninstalling)
        say "release \"$1\" was interrupted ($status): it is removed and installed again"
        helm uninstall "$1" --namespace "$namespace" --no-hooks || fail "release $1 cannot be removed" "see: helm status $1 -n $namespace"
        ;;
    failed)
        # A first installation that failed has no revision that an upgrade could start from.
        history=$(helm history "$1" --namespace "$namespace") || fail "the revisions of release $1 cannot be listed" "fix what helm reports above and run $0 again"
        if ! grep -Eq 'deployed|superseded' <<<"$history"; then
            helm uninstall "$1" --namespace "$namespace" --no-hooks || fail "release $1 cannot be removed" "see: helm status $1 -n $namespace"
        fi
        ;;
    pending-upgrade | pending-rollback)
        say "release \"$1\" was interrupted ($status): it is rolled back and upgraded again"
        helm rollback "$1" --namespace "$namespace" --no-hooks ${apply_options[@]+"${apply_options[@]}"} || fail "release $1 cannot be rolled back" "see: helm history $1 -n $namespace"
        ;;
    esac
    helm upgrade "$1" "$2" --install --namespace "$namespace" --create-namespace --timeout "$timeout" \
        ${apply_options[@]+"${apply_options[@]}"} ${helm_arguments[@]+"${helm_arguments[@]}"} ||
        fail "release $1 was not installed" "fix what helm reports above and run $0 again: it continues"
}

# add_image_arguments FILE: pass to helm the values that options gave, and the checksum of the saved image.
add_image_arguments() {
    [ -z "$repository" ] || helm_arguments+=(--set-string "image.repository=$repository")
    [ -z "$tag" ] || helm_arguments+=(--set-string "image.tag=$tag")
    # The same tag with other contents must start new pods.
    [ ! -f "$1" ] || helm_arguments+=(--set-string "podAnnotations.gcushare\\.io/image=$(checksum_of "$1")")
    [ -z "$vendor" ] || helm_arguments+=(--set-string "vendor=$vendor")
}

# render NAME CHART [HELM-OPTION...]: print what would be installed; fails if the values do not fit.
render() {
    local release=$1 chart=$2
    shift 2
    # Without a cluster helm takes the version of Kubernetes that it was built with.
    helm template "$release" "$chart" --namespace "$namespace" --kube-version "$kube_version" ${helm_arguments[@]+"${helm_arguments[@]}"} "$@" ||
        fail "the values do not fit the chart $chart" "fix what helm reports above; nothing was changed"
}

# refuse_foreign NAME: stop if this script did not install the programs: only another release can change what it installed,
# such as the one of the chart of both halves, and only kubectl what kubectl applied.
refuse_foreign() {
    local owners kind object owner
    owners=$(kubectl get daemonsets,deployments --namespace "$namespace" --selector "app.kubernetes.io/name=$1" \
        -o jsonpath='{range .items[*]}{.kind}{" "}{.metadata.name}{" "}{.metadata.annotations.meta\.helm\.sh/release-name}{"\n"}{end}') ||
        fail "kubectl could not list what is installed in namespace $namespace" "check that you may list DaemonSets and Deployments there"
    while read -r kind object owner; do
        [ -n "$kind" ] && [ "$owner" != "$1" ] || continue
        [ -n "$owner" ] || fail "$1 was installed without helm ($kind $object), so this script does not change it" \
            "remove it with the commands of docs/install.md, 'Without helm'"
        fail "$1 belongs to the helm release $owner, not to one of this script" \
            "upgrade it by: helm upgrade $owner CHART -n $namespace; uninstall it by: helm uninstall $owner -n $namespace --timeout 15m"
    done <<<"$owners"
}

uninstall_release() { # uninstall_release NAME [HELM-OPTION...]
    local release=$1 status
    shift
    status=$(release_status "$release") || exit 1
    if [ -z "$status" ]; then
        say "release \"$release\" is not installed in namespace $namespace"
        return 0
    fi
    helm uninstall "$release" --namespace "$namespace" --timeout "$timeout" "$@" ||
        fail "release $release was not uninstalled completely" "fix what helm reports above and run $0 again: it continues"
}
