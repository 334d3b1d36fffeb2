#!/usr/bin/env bash
# Show who uses which card: inspect.sh [NODE]. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A package that was unpacked alone has the sources in its own folder.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
set_common_defaults
url=${GCUSHARE_EXTENDER_URL:-}
node=

while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        say "Usage: inspect.sh [OPTION...] [NODE]

Show the use of every card, of one node or of all, as the extender counts it.

  --namespace NAME     namespace of the release (GCUSHARE_NAMESPACE, kube-system)
  --vendor VENDOR      ${vendor_names%, } (GCUSHARE_VENDOR, $DEFAULT_VENDOR)
  --url URL            ask here, such as http://10.96.1.37:32766, instead of through the API server
                       (GCUSHARE_EXTENDER_URL)"
        exit 0
        ;;
    --namespace) common_option "$@" && shift 2 ;;
    --vendor) take_value "$1" $# && vendor=$2 && one_of "$2" "$1" "${VENDORS[@]}" && shift 2 ;;
    --url) take_value "$1" $# && url=$2 && shift 2 ;;
    -*) fail "unknown option '$1'" "see $0 --help" ;;
    *)
        [ -z "$node" ] || fail "more than one node is given: '$node' and '$1'" "give one, or none for all"
        node=$1
        shift
        ;;
    esac
done

vendor=${vendor:-$DEFAULT_VENDOR}
one_of "$vendor" GCUSHARE_VENDOR "${VENDORS[@]}"
word=${DEVICE_WORD[$vendor]}
if [ -n "$node" ]; then
    say "inspect $word usage of node $node from scheduler cache"
else
    say "inspect $word usage of all nodes from scheduler cache"
fi

# request PATH: set answer to what the extender answers, and errors to what the tool reports; returns 1 if it is no document.
request() {
    local status
    if [ -n "$url" ]; then
        # --fail-with-body would do it, but curl before 7.76 does not have it.
        answer=$(curl --silent --show-error --max-time 10 --write-out '\n%{http_code}' "${url%/}$1" 2>"$error_file") || true
        status=${answer##*$'\n'} answer=${answer%$'\n'*} errors=$(<"$error_file")
        [ "$status" = 200 ]
    else
        answer=$(kubectl get --raw "$proxy$1" 2>"$error_file") && return 0
        errors=$(<"$error_file")
        # kubectl reports such an answer without its text. With -v=8 it prints the text too.
        answer=$(kubectl get --raw "$proxy$1" -v=8 2>&1) || true
        return 1
    fi
}

# The text of the error that the extender answered with; nothing if there is none.
extender_error() { sed -n '/"error": *"/{s/.*"error": *"\([^"]*\)".*/\1/p;q;}' <<<"${answer//\\\"/\"}"; }

if [ -n "$url" ]; then
    need curl "it asks the extender"
    place="at $url" check="check the address and that a replica is ready"
else
    need kubectl "it asks the extender through the API server"
    scheme=$(kubectl get service gcushare-scheduler-extender --namespace "$namespace" -o jsonpath='{.spec.ports[0].name}') ||
        fail "there is no Service gcushare-scheduler-extender in namespace $namespace" "install it with ./deploy.sh, or give --namespace"
    port=$(kubectl get service gcushare-scheduler-extender --namespace "$namespace" -o jsonpath='{.spec.ports[0].port}')
    [ "$scheme" = https ] && scheme=https: || scheme=
    proxy=/api/v1/namespaces/$namespace/services/${scheme}gcushare-scheduler-extender:$port/proxy
    place="behind the Service of namespace $namespace"
    check="see: kubectl get pod -n $namespace -l app.kubernetes.io/name=gcushare-scheduler-extender; or give --url"
fi
error_file=$(mktemp)
trap 'rm -f "$error_file"' EXIT
if request "${URL_PREFIX[$vendor]}/inspect${node:+/$node}?pretty=true"; then
    say "${answer%$'\n'}"
    exit 0
fi
first_errors=$errors reason=$(extender_error)
# An extender answers only for the vendors that it serves.
for each in "${VENDORS[@]}"; do
    [ "$each" != "$vendor" ] || continue
    if ! request "${URL_PREFIX[$vendor]}/inspect" && request "${URL_PREFIX[$each]}/inspect"; then
        fail "the extender $place does not serve $vendor ($word) cards; it serves $each (${DEVICE_WORD[$each]})" \
            "run: $0 --vendor $each${node:+ $node}; to serve both, deploy both packages with --vendor both"
    fi
done
[ -z "$node" ] || check="run $0 without a node to list those that it knows"
[ -z "$reason" ] || fail "$reason" "$check"
[ -z "$first_errors" ] || printf '%s\n' "$first_errors" >&2
fail "the extender $place did not answer with the document" "$check"
