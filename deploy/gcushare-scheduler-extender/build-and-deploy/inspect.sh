#!/usr/bin/env bash
# Show who uses which card: inspect.sh [NODE]. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# In a package that was carried here alone the sources lie below it.
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

Show the use of every card, of one node or of all, as the extender's ledger has it.

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
word=${DEVICE_WORD[$vendor]} path=${URL_PREFIX[$vendor]}/inspect
if [ -n "$node" ]; then
    say "inspect $word usage of node $node from scheduler cache"
    path=$path/$node
else
    say "inspect $word usage of all nodes from scheduler cache"
fi

# said_by TEXT: the words of an error that the extender answered with; nothing where TEXT holds none.
said_by() {
    local words
    words=$(printf '%s' "$1" | sed -e 's/\\"/"/g' | sed -n 's/.*"error": *"\([^"]*\)".*/\1/p' | head -n 1)
    [ -z "$words" ] || fail "$words" "${node:+run $0 without a node to see all that it knows}"
}

if [ -n "$url" ]; then
    need curl "it asks the extender"
    # What an error says is no document, and no curl before 7.76 fails by itself and shows it all the same.
    answer=$(curl --silent --show-error --max-time 10 --write-out '\n%{http_code}' "${url%/}$path?pretty=true") || true
    status=${answer##*$'\n'} answer=${answer%$'\n'*}
    if [ "$status" = 200 ]; then
        say "${answer%$'\n'}"
        exit 0
    fi
    said_by "$answer"
    fail "the extender at $url did not answer with the document" "check the address and that a replica is ready"
fi
need kubectl "it asks the extender through the API server"
scheme=$(kubectl get service gcushare-scheduler-extender --namespace "$namespace" -o jsonpath='{.spec.ports[0].name}') ||
    fail "there is no Service gcushare-scheduler-extender in namespace $namespace" "install it with ./deploy.sh, or give --namespace"
port=$(kubectl get service gcushare-scheduler-extender --namespace "$namespace" -o jsonpath='{.spec.ports[0].port}')
[ "$scheme" = https ] && scheme=https: || scheme=
place="/api/v1/namespaces/$namespace/services/${scheme}gcushare-scheduler-extender:$port/proxy$path?pretty=true"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
kubectl get --raw "$place" 2>"$errors" && exit 0
# kubectl tells of such an answer only that there was one; asked to be talkative it shows the words.
said_by "$(kubectl get --raw "$place" -v=8 2>&1 || true)"
cat "$errors" >&2
fail "the extender did not answer with the document through the API server" "see: kubectl get pod -n $namespace -l app.kubernetes.io/name=gcushare-scheduler-extender; or give --url"
