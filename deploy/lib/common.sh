# shellcheck shell=bash
# What the scripts of both packages share: messages, options, and the names of images. Sourced by them; it runs nothing by
# itself.
# shellcheck disable=SC2034,SC2154 # the scripts set some of the names, and read others
# shellcheck source=deploy/lib/vendors.sh
. "${BASH_SOURCE[0]%/*}/vendors.sh"

say() { printf '%s\n' "$*"; }

# fail WHAT TODO: stop with what went wrong and what to do about it.
fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'what to do: %s\n' "$2" >&2
    exit 1
}

# need TOOL WHY
need() { command -v "$1" >/dev/null 2>&1 || fail "$1 is not on PATH" "install $1: $2"; }

check_cluster() {
    need kubectl "it talks to the cluster"
    need helm "version 3 or 4, it installs the charts"
    case $(helm version --template '{{.Version}}' 2>/dev/null) in
    v3.*) list_options=(--all) apply_options=() ;;
    # Version 4 lists every state and refuses the flag. By default it applies on the server, where the client that
    # patched a field last owns it: the desired state that delete.sh sets would stay.
    v4.*) list_options=() apply_options=(--server-side=false) ;;
    *) fail "helm is not version 3 or 4" "install helm 3 or 4" ;;
    esac
    kube_version=$(kubectl get --raw /version | sed -n 's/.*"gitVersion": *"\(v[0-9.]*\).*/\1/p') && [ -n "$kube_version" ] ||
        fail "the cluster does not answer" "set KUBECONFIG to a cluster that 'kubectl version' can reach, or choose one: kubectl config use-context NAME"
}

# node_names SELECTOR: print the nodes, one a line; all nodes if it is empty. Fails if they cannot be listed.
node_names() {
    kubectl get nodes --selector "$1" -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}' ||
        fail "the nodes cannot be listed" "check that 'kubectl get nodes' works, and run $0 again"
}

# --- options ------------------------------------------------------------------------------------------------------

# Set the options that scripts share to their defaults. Each may come from the environment.
set_common_defaults() {
    namespace=${GCUSHARE_NAMESPACE:-kube-system}
    # Empty means that the chart's values count.
    repository=${GCUSHARE_REPOSITORY:-}
    tag=${GCUSHARE_TAG:-}
    tool=${GCUSHARE_IMAGE_TOOL:-}
    delivery=${GCUSHARE_DELIVERY:-auto}
    ssh_user=${GCUSHARE_SSH_USER:-root}
    ssh_port=${GCUSHARE_SSH_PORT:-22}
    timeout=${GCUSHARE_TIMEOUT:-10m}
    check_time "$timeout" "GCUSHARE_TIMEOUT"
    vendor=${GCUSHARE_VENDOR:-}
    helm_arguments=()
}

# take_value OPTION COUNT: an option without its value stops the script.
take_value() { [ "$2" -ge 2 ] || fail "option $1 needs a value" "see $0 --help"; }

# one_of VALUE WHAT ACCEPTED...
one_of() {
    local value=$1 what=$2 each
    shift 2
    for each in "$@"; do [ "$value" != "$each" ] || return 0; done
    fail "$what is '$value'" "use one of: $*"
}

# check_time VALUE WHAT
check_time() {
    [[ $1 =~ ^[0-9]+[smh]$ ]] || fail "$2 is '$1'" "give whole seconds, minutes or hours, such as 90s, 10m or 1h"
}

# seconds_of TIME: print a time that check_time accepts in seconds. 08m is eight minutes, not an octal number.
seconds_of() {
    case $1 in
    *h) echo $((10#${1%h} * 3600)) ;;
    *m) echo $((10#${1%m} * 60)) ;;
    *) echo $((10#${1%s})) ;;
    esac
}

# --- names of images ----------------------------------------------------------------------------------------------

# image_value FILE KEY: print image.KEY of a chart's values.yaml. For build-image.sh, which needs no helm.
image_value() {
    awk -v key="$2:" '/^[^ #]/ { inside = ($1 == "image:") } inside && $1 == key { print $2; exit }' "$1" | tr -d "\"'\r"
}

# image_path CHART: print registry, path and name of the chart's image; --repository counts before the values.
image_path() {
    local values=$1/values.yaml path=$repository image_name
    path=${path:-$(image_value "$values" repository)}
    image_name=$(image_value "$values" name)
    [ -n "$path" ] && [ -n "$image_name" ] ||
        fail "$values has no image.repository or no image.name in lines of their own" "restore these lines, or give --repository"
    say "${path%/}/$image_name"
}

# image_tag CHART: print the tag of the chart's image: the one of the values, or v and the appVersion of the chart.
image_tag() {
    local found
    found=$(image_value "$1/values.yaml" tag)
    [ -n "$found" ] || found=v$(awk '$1 == "appVersion:" { print $2; exit }' "$1/Chart.yaml" | tr -d "\"'\r")
    say "$found"
}

# image_of MANIFEST: print the image of the first container in a manifest, without its digest: a saved image is loaded
# by its tag.
image_of() { sed -n '/^ *image: /{s/^ *image: "\{0,1\}\([^"@]*\).*/\1/p;q;}' <<<"$1"; }

# --- help ---------------------------------------------------------------------------------------------------------

COMMON_HELP='  --namespace NAME     namespace of the release (GCUSHARE_NAMESPACE, kube-system)
  --timeout TIME       how long helm and the waits may take, in whole seconds, minutes or hours, such as 10m
                       (GCUSHARE_TIMEOUT, 10m)'
REPOSITORY_HELP='  --repository NAME    registry and path of the image (GCUSHARE_REPOSITORY, from values.yaml)
  --tag TAG            its tag (GCUSHARE_TAG, from values.yaml)'
IMAGE_HELP="$REPOSITORY_HELP
  --tool TOOL          docker, podman, nerdctl, buildah or ctr (GCUSHARE_IMAGE_TOOL; otherwise the first that works)"
vendor_names=$(printf '%s, ' "${VENDORS[@]}")
DEPLOY_HELP="  --delivery HOW       push, load (on every node), auto (push, else load) or none (GCUSHARE_DELIVERY, auto)
  --ssh-user NAME      for loading on other nodes (GCUSHARE_SSH_USER, root)
  --ssh-port PORT      for loading on other nodes (GCUSHARE_SSH_PORT, 22)
  --vendor VENDOR      ${vendor_names%, } or both (GCUSHARE_VENDOR, from the values)
  --values FILE        a values file of the chart; may be repeated
  --set KEY=VALUE      a value of the chart; may be repeated

The values of the chart count, as values.yaml in its folder has them, unless an option is given."

# common_option "$@": accept one option that scripts share; returns 1 if it is none of them.
common_option() {
    case $1 in
    --namespace) take_value "$1" $# && namespace=$2 ;;
    --timeout) take_value "$1" $# && timeout=$2 && check_time "$2" --timeout ;;
    --repository) take_value "$1" $# && repository=$2 ;;
    --tag) take_value "$1" $# && tag=$2 ;;
    --tool) take_value "$1" $# && tool=$2 ;;
    --delivery) take_value "$1" $# && delivery=$2 && one_of "$2" --delivery auto push load none ;;
    --ssh-user) take_value "$1" $# && ssh_user=$2 ;;
    --ssh-port) take_value "$1" $# && ssh_port=$2 ;;
    --vendor) take_value "$1" $# && vendor=$2 && one_of "$2" --vendor "${VENDORS[@]}" both ;;
    --values) take_value "$1" $# && helm_arguments+=(--values "$2") ;;
    --set) take_value "$1" $# && helm_arguments+=(--set "$2") ;;
    *) return 1 ;;
    esac
}
