# shellcheck shell=bash
# What the scripts of both packages share: saying what goes wrong, finding tools, images, nodes and releases. It is
# sourced by them and runs nothing by itself.
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
need() { command -v "$1" >/dev/null 2>&1 || fail "$1 is not to be found on PATH" "install $1: $2"; }

check_cluster() {
    need kubectl "it talks to the cluster"
    need helm "version 3 or 4, it installs the charts"
    case $(helm version --template '{{.Version}}' 2>/dev/null) in
    v3.*) list_options=(--all) apply_options=() ;;
    # Version 4 lists every state, and refuses the flag. By itself it applies on the server, which leaves
    # a field to whoever patched it: the desired state that delete.sh sets would stay.
    v4.*) list_options=() apply_options=(--server-side=false) ;;
    *) fail "helm is not version 3 or 4" "install helm 3 or 4" ;;
    esac
    kubectl get --raw /version >/dev/null ||
        fail "the cluster does not answer" "set KUBECONFIG, or --context, to a cluster that 'kubectl version' can reach"
}

# node_names SELECTOR: one node a line, of all nodes where it is empty; fails where they cannot be listed.
node_names() {
    kubectl get nodes --selector "$1" -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}' ||
        fail "the nodes cannot be listed" "check that 'kubectl get nodes' works, and run $0 again"
}

# --- options ------------------------------------------------------------------------------------------------------

# Defaults of the options that scripts share; each may come from the environment.
set_common_defaults() {
    namespace=${GCUSHARE_NAMESPACE:-kube-system}
    repository=${GCUSHARE_REPOSITORY:-artifact.enflame.cn/enflame_docker_images/enflame}
    tag=${GCUSHARE_TAG:-latest}
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

# one_of WORD WHAT ACCEPTED...
one_of() {
    local word=$1 what=$2 each
    shift 2
    for each in "$@"; do [ "$word" != "$each" ] || return 0; done
    fail "$what is '$word'" "use one of: $*"
}

# check_time WORD WHAT
check_time() {
    [[ $1 =~ ^[0-9]+[smh]$ ]] || fail "$2 is '$1'" "give whole seconds, minutes or hours, such as 90s, 10m or 1h"
}

# seconds_of TIME: one that check_time accepts; 08m is eight minutes, not an octal number.
seconds_of() {
    case $1 in
    *h) echo $((10#${1%h} * 3600)) ;;
    *m) echo $((10#${1%m} * 60)) ;;
    *) echo $((10#${1%s})) ;;
    esac
}

# --- images -------------------------------------------------------------------------------------------------------

# find_tool WHAT TOOL...: choose the given image tool or the first that is here and works.
find_tool() {
    local what=$1 each
    shift
    if [ -n "$tool" ]; then
        one_of "$tool" "the image tool" "$@"
        command -v "$tool" >/dev/null 2>&1 || fail "$tool is not to be found on PATH" "install it, or name another with --tool"
        return
    fi
    for each in "$@"; do
        if command -v "$each" >/dev/null 2>&1 && tool_works "$each"; then
            tool=$each
            return
        fi
    done
    fail "no tool that can $what is here and works (looked for: $*)" \
        "install one of them, or start its service, or bring images/$name.tar from a machine that has one"
}

tool_works() {
    case $1 in
    docker | podman | nerdctl) "$1" info >/dev/null 2>&1 ;;
    buildah) buildah info >/dev/null 2>&1 ;;
    ctr) ctr version >/dev/null 2>&1 ;;
    esac
}

# Kubernetes looks for its images in containerd's namespace k8s.io.
nerd() { nerdctl --namespace k8s.io "$@"; }

build_with() { # build_with IMAGE TARGET PLATFORM CONTEXT [BUILD-ARG...]
    local image=$1 target=$2 platform=$3 context=$4 arguments=() each
    shift 4
    for each in "$@"; do arguments+=(--build-arg "$each"); done
    [ -z "$platform" ] || arguments+=(--platform "$platform")
    arguments+=(--file "$context/deploy/image/Dockerfile" --target "$target" --tag "$image" "$context")
    case $tool in
    docker) DOCKER_BUILDKIT=1 docker build "${arguments[@]}" ;;
    podman) podman build "${arguments[@]}" ;;
    nerdctl) nerd build "${arguments[@]}" ;;
    buildah) buildah build "${arguments[@]}" ;;
    esac
}

remove_with() {
    case $tool in
    docker) docker rmi "$1" ;;
    podman) podman rmi "$1" ;;
    nerdctl) nerd rmi "$1" ;;
    buildah) buildah rmi "$1" ;;
    ctr) ctr --namespace k8s.io images remove "$1" ;;
    esac
}

save_with() { # save_with IMAGE FILE
    case $tool in
    docker) docker save --output "$2" "$1" ;;
    podman) podman save --format docker-archive --output "$2" "$1" ;;
    nerdctl) nerd save --output "$2" "$1" ;;
    buildah) buildah push "$1" "docker-archive:$2:$1" ;;
    esac
}

load_with() { # load_with FILE IMAGE
    case $tool in
    docker) docker load --input "$1" ;;
    podman) podman load --input "$1" ;;
    nerdctl) nerd load --input "$1" ;;
    buildah) buildah pull "docker-archive:$1" ;;
    ctr) ctr --namespace k8s.io images import "$1" ;;
    esac
}

push_with() {
    case $tool in
    docker) docker push "$1" ;;
    podman) podman push "$1" ;;
    nerdctl) nerd push "$1" ;;
    buildah) buildah push "$1" ;;
    ctr) ctr --namespace k8s.io images push "$1" ;;
    esac
}

checksum_of() { sha256sum "$1" | cut -c 1-16; }

# The command that loads an image from its standard input where a node's container runtime finds it, by the runtime that
# the node names.
import_command() { # import_command RUNTIME
    case $1 in
    docker://*) echo "docker load" ;;
    cri-o://*) echo "podman load" ;;
    *) echo "ctr --namespace k8s.io images import -" ;;
    esac
}

is_this_machine() { # is_this_machine ADDRESS
    local own
    for own in 127.0.0.1 ::1 $(hostname -I 2>/dev/null); do [ "$1" != "$own" ] || return 0; done
    return 1
}

# load_on_nodes FILE: load the image on every node, those left out that an interrupted run has loaded this very file on. A
# node is known by its uid: another cluster may have one of the same name, and so may this one after a reinstallation.
load_on_nodes() {
    local file=$1 sum marks lines node uid runtime address command
    sum=$(checksum_of "$file")
    marks=$(dirname "$file")/.loaded
    touch "$marks"
    # A node of two address families has two addresses; the first will do.
    lines=$(kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.metadata.uid}{" "}{.status.nodeInfo.containerRuntimeVersion}{" "}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}') ||
        fail "the nodes cannot be listed" "check that 'kubectl get nodes' works"
    say "cluster nodes: $(printf '%s\n' "$lines" | awk 'NF { printf "%s\"%s\"", (n++ ? " " : ""), $4 }')"
    while read -r node uid runtime address _; do
        [ -n "$node" ] || continue
        if grep -qx "$sum $uid" "$marks"; then
            say "node $node has the image already"
            continue
        fi
        command=$(import_command "$runtime")
        if is_this_machine "$address"; then
            eval "$command" <"$file" || fail "the image could not be loaded on this machine ($node) by: $command <$file" \
                "run that command by hand to see why; then run $0 again, it goes on from here"
        # Through a pipe: no file is left there, or could be put there by another user beforehand.
        elif ! ssh -p "$ssh_port" "$ssh_user@$address" "$command" <"$file"; then
            fail "the image could not be loaded on node $node ($address) by: $command" \
                "check that 'ssh -p $ssh_port $ssh_user@$address' works without a question (--ssh-user, --ssh-port), or push the image to a registry (--delivery push); then run $0 again, it goes on from here"
        fi
        say "$sum $uid" >>"$marks"
    done <<<"$lines"
    # The next run loads it again: a kubelet short of disk space may have removed it meanwhile.
    rm -f "$marks"
}

# deliver IMAGE FILE: bring the image to the nodes as --delivery says.
deliver() {
    local image=$1 file=$2
    [ "$delivery" != none ] || return 0
    [ -f "$file" ] || fail "the image file $file is not there" "run ./build-image.sh first, or --delivery none when the nodes can pull $image"
    if [ "$delivery" != load ]; then
        say "Try to push component image to enflame repo..."
        # The tools whose standing matters only for a push are looked for quietly: loading needs none of them here.
        if (find_tool push docker podman nerdctl buildah ctr) >/dev/null 2>&1; then
            find_tool push docker podman nerdctl buildah ctr
            remove_with "$image" 2>/dev/null || true
            if load_with "$file" "$image" && push_with "$image"; then
                say "push images to repo success"
                return 0
            fi
        fi
        [ "$delivery" != push ] || fail "the image $image could not be pushed" \
            "log in to the registry, or name another with --repository, or load the image on the nodes (--delivery load)"
        say "push images to repo failed, will load operator image to all nodes"
    fi
    load_on_nodes "$file"
}

# --- releases -----------------------------------------------------------------------------------------------------

# release_status NAME: its status, nothing when there is no such release; fails where that cannot be seen. Bash before 4.4
# takes an empty array for an unset variable.
release_status() {
    local found
    found=$(helm list --namespace "$namespace" ${list_options[@]+"${list_options[@]}"} --filter "^$1\$" --output json) ||
        fail "it cannot be seen whether release $1 is installed in namespace $namespace" \
            "mend what helm says above; it keeps its releases in Secrets of that namespace"
    sed -n 's/.*"status":"\([^"]*\)".*/\1/p' <<<"$found"
}

# install_release NAME CHART: install, upgrade, or take up again what an interrupted run left.
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
        history=$(helm history "$1" --namespace "$namespace") || fail "the revisions of release $1 cannot be seen" "mend what helm says above and run $0 again"
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
        ${apply_options[@]+"${apply_options[@]}"} "${helm_arguments[@]}" ||
        fail "release $1 was not installed" "mend what helm says above and run $0 again: it continues"
}

image_arguments() { # image_arguments FILE
    helm_arguments+=(--set-string "image.repository=$repository" --set-string "image.tag=$tag")
    # The same tag with other contents must start new pods.
    [ ! -f "$1" ] || helm_arguments+=(--set-string "podAnnotations.gcushare\\.io/image=$(checksum_of "$1")")
    [ -z "$vendor" ] || helm_arguments+=(--set-string "vendor=$vendor")
}

# refuse_other_release NAME: stop where another release installed the programs, such as that of the chart of both halves.
# Only that one can change them, and helm would say so after schedulers and labels were changed.
refuse_other_release() {
    local owners owner
    owners=$(kubectl get daemonsets,deployments --namespace "$namespace" --selector "app.kubernetes.io/name=$1" \
        -o jsonpath='{range .items[*]}{.metadata.annotations.meta\.helm\.sh/release-name}{"\n"}{end}') ||
        fail "it cannot be seen what is installed in namespace $namespace" "check that you may list DaemonSets and Deployments there"
    owner=$(printf '%s\n' "$owners" | grep -vx -e '' -e "$1" | head -n 1 || true)
    [ -z "$owner" ] || fail "$1 belongs to the helm release $owner, not to one of this script" \
        "upgrade it by: helm upgrade $owner CHART -n $namespace; uninstall it by: helm uninstall $owner -n $namespace --timeout 15m"
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
        fail "release $release was not uninstalled completely" "mend what helm says above and run $0 again: it continues"
}

COMMON_HELP='  --namespace NAME     namespace of the release (GCUSHARE_NAMESPACE, kube-system)
  --timeout TIME       how long helm and the waits may take, in whole seconds, minutes or hours, such as 10m
                       (GCUSHARE_TIMEOUT, 10m)'
REPOSITORY_HELP='  --repository NAME    registry and path of the image (GCUSHARE_REPOSITORY)
  --tag TAG            its tag (GCUSHARE_TAG, latest)'
IMAGE_HELP="$REPOSITORY_HELP
  --tool TOOL          docker, podman, nerdctl, buildah or ctr (GCUSHARE_IMAGE_TOOL, the first that works)"
vendor_names=$(printf '%s, ' "${VENDORS[@]}")
DEPLOY_HELP="  --delivery HOW       push, load (on every node), auto (push, else load) or none (GCUSHARE_DELIVERY, auto)
  --ssh-user NAME      for loading on other nodes (GCUSHARE_SSH_USER, root)
  --ssh-port PORT      for loading on other nodes (GCUSHARE_SSH_PORT, 22)
  --vendor VENDOR      ${vendor_names%, } or both (GCUSHARE_VENDOR, from the values)
  --values FILE        a values file of the chart; may be repeated (image.repository and image.tag come from
                       --repository and --tag alone)
  --set KEY=VALUE      a value of the chart; may be repeated"

# common_option "$@": take one shared option; returns how many words it took, 0 when it is none of them.
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
