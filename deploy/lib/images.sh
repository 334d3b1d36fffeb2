# shellcheck shell=bash
# Build, save, load and push images with docker, podman, nerdctl, buildah or ctr; bring an image to every node.
# Sourced by build-image.sh and deploy.sh after common.sh.
# shellcheck disable=SC2154 # set by the script that sources this

# find_tools TOOL...: set tools to those that work, in this order, or to the one of --tool. Returns 1 and sets problems
# if there is none.
find_tools() {
    local each output
    tools=() problems=
    if [ -n "$tool" ]; then
        one_of "$tool" "--tool" "$@"
        command -v "$tool" >/dev/null 2>&1 || fail "$tool is not on PATH" "install it, or name another tool with --tool"
        tools=("$tool")
        return
    fi
    for each in "$@"; do
        command -v "$each" >/dev/null 2>&1 || continue
        if output=$(check_tool "$each" 2>&1); then
            tools+=("$each")
        else
            problems+="; $each: ${output%%$'\n'*}"
        fi
    done
    [ "${#tools[@]}" -gt 0 ] || {
        problems=${problems:-"; not on PATH: $*"}
        problems=${problems#; }
        return 1
    }
}

# check_tool TOOL: print what is wrong on stderr, and return 1, if it does not work.
check_tool() {
    case $1 in
    docker | podman | nerdctl | buildah) "$1" info >/dev/null ;;
    ctr) ctr version >/dev/null ;;
    esac
}

# Kubernetes looks for its images in containerd's namespace k8s.io.
nerd() { nerdctl --namespace k8s.io "$@"; }

build_with() { # build_with IMAGE TARGET PLATFORM CONTEXT [BUILD-ARG...]
    local image=$1 target=$2 platform=$3 context=$4 arguments=() each buildkit=0
    shift 4
    for each in "$@"; do arguments+=(--build-arg "$each"); done
    [ -z "$platform" ] || arguments+=(--platform "$platform")
    arguments+=(--label "org.opencontainers.image.version=${image##*:}")
    each=$(git -C "$context" rev-parse HEAD 2>/dev/null) || each=
    [ -z "$each" ] || arguments+=(--label "org.opencontainers.image.revision=$each")
    arguments+=(--file "$context/deploy/image/Dockerfile" --target "$target" --tag "$image" "$context")
    case $tool in
    docker)
        # docker reaches BuildKit through its plugin buildx. Without the plugin only the classic builder works.
        if docker buildx version >/dev/null 2>&1; then buildkit=1; fi
        DOCKER_BUILDKIT=$buildkit docker build "${arguments[@]}"
        ;;
    podman) podman build "${arguments[@]}" ;;
    nerdctl) nerd build "${arguments[@]}" ;;
    buildah) buildah build "${arguments[@]}" ;;
    esac
}

# image_id IMAGE: print the id that the tool knows the image by. Prints nothing if there is no such image, or if the tool
# keeps no image without a name.
image_id() {
    case $tool in
    docker) docker image inspect --format '{{.Id}}' "$1" ;;
    podman) podman image inspect --format '{{.Id}}' "$1" ;;
    buildah) buildah inspect --type image --format '{{.FromImageID}}' "$1" ;;
    esac 2>/dev/null || true
}

# remove_former ID IMAGE: remove the image that had the name before. Call it when another image has the name.
remove_former() {
    [ -n "$1" ] || return 0
    [ "$1" != "$(image_id "$2")" ] || return 0
    "$tool" rmi "$1" || say "the former image $1 was not removed: it is in use, has another tag, or is gone"
}

save_with() { # save_with IMAGE FILE
    case $tool in
    docker) docker save --output "$2" "$1" ;;
    podman) podman save --format docker-archive --output "$2" "$1" ;;
    nerdctl) nerd save --output "$2" "$1" ;;
    buildah) buildah push "$1" "docker-archive:$2:$1" ;;
    esac
}

load_with() { # load_with FILE
    case $tool in
    docker) docker load --input "$1" ;;
    podman) podman load --input "$1" ;;
    nerdctl) nerd load --input "$1" ;;
    buildah) buildah pull "docker-archive:$1" ;;
    ctr) ctr --namespace k8s.io images import "$1" ;;
    esac
}

push_with() { # push_with IMAGE
    case $tool in
    docker) docker push "$1" ;;
    podman) podman push "$1" ;;
    nerdctl) nerd push "$1" ;;
    buildah) buildah push "$1" ;;
    ctr) ctr --namespace k8s.io images push "$1" ;;
    esac
}

checksum_of() { sha256sum "$1" | cut -c 1-16; }

# check_saved_name FILE IMAGE: stop if the file holds an image of another name. The nodes would load it, and the pods
# would not find theirs. What the file is called inside of it: manifest.json, as docker and all others save it.
check_saved_name() {
    local names each
    names=$(tar -xOf "$1" manifest.json 2>/dev/null | sed -n 's/.*"RepoTags": *\[\([^]]*\)\].*/\1/p' | tr -d '" ' | tr ',' ' ') || return 0
    [ -n "$names" ] || return 0
    # Some tools put their default registry before a name without one.
    for each in $names; do [ "$each" != "$2" ] && [ "${each%"/$2"}" = "$each" ] || return 0; done
    fail "$1 holds the image $names, but the pods will ask for $2" \
        "run ./build-image.sh again, which takes the name from values.yaml too, or give deploy.sh the --repository and --tag of the saved image"
}

# import_command RUNTIME: print the command that loads an image from its standard input into a node's container runtime.
# RUNTIME is the node's containerRuntimeVersion.
import_command() {
    case $1 in
    docker://*) echo "docker load" ;;
    cri-o://*) echo "podman load" ;;
    containerd://*-k3s*)
        # k3s has a ctr of its own; RKE2, whose containerd has the same version, has one outside of PATH.
        # shellcheck disable=SC2016 # the node's shell reads it
        echo 'PATH=$PATH:/usr/local/bin:/var/lib/rancher/rke2/bin; $(command -v k3s) ctr --address /run/k3s/containerd/containerd.sock --namespace k8s.io images import -'
        ;;
    *) echo "ctr --namespace k8s.io images import -" ;;
    esac
}

is_this_machine() { # is_this_machine ADDRESS
    local own
    for own in 127.0.0.1 ::1 $(hostname -I 2>/dev/null); do [ "$1" != "$own" ] || return 0; done
    return 1
}

# load_on_nodes FILE: load the image on every node, except those on which an interrupted run loaded this very file. A node
# is known by its uid: another cluster may have a node of the same name, and so may this one after a reinstallation.
load_on_nodes() {
    local file=$1 sum marks lines node uid runtime address command
    sum=$(checksum_of "$file")
    marks=$(dirname "$file")/.loaded
    touch "$marks"
    # A node of two address families has two addresses. The first is enough.
    lines=$(kubectl get nodes --selector kubernetes.io/os=linux -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.metadata.uid}{" "}{.status.nodeInfo.containerRuntimeVersion}{" "}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}') ||
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
                "run that command by hand to see why; then run $0 again, which continues from here"
        # Through a pipe: no file stays on the node, and no other user can put one there beforehand.
        elif ! ssh -p "$ssh_port" "$ssh_user@$address" "$command" <"$file"; then
            fail "the image could not be loaded on node $node ($address) by: $command" \
                "check that 'ssh -p $ssh_port $ssh_user@$address' works without a question (--ssh-user, --ssh-port), or push the image to a registry (--delivery push); then run $0 again, which continues from here"
        fi
        say "$sum $uid" >>"$marks"
    done <<<"$lines"
    # The next run loads the image everywhere: a kubelet that is short of disk space may have removed it.
    rm -f "$marks"
}

# push_saved IMAGE FILE: load the saved image here and push it. Returns 1 if no tool works, or if it could not be pushed.
push_saved() {
    local former
    find_tools docker podman nerdctl buildah ctr || return 1
    tool=${tools[0]}
    former=$(image_id "$1")
    load_with "$2" || return 1
    remove_former "$former" "$1"
    push_with "$1"
}

# deliver IMAGE FILE: bring the image to the nodes as --delivery says.
deliver() {
    local image=$1 file=$2
    [ "$delivery" != none ] || return 0
    [ -f "$file" ] || fail "there is no image file $file" "run ./build-image.sh first, or give --delivery none if the nodes can pull $image"
    check_saved_name "$file" "$image"
    if [ "$delivery" != load ]; then
        say "Try to push component image to enflame repo..."
        if push_saved "$image" "$file"; then
            say "push images to repo success"
            return 0
        fi
        [ "$delivery" != push ] || fail "the image $image could not be pushed${problems:+: $problems}" \
            "log in to the registry, or name another one with --repository, or load the image on the nodes (--delivery load)"
        say "push images to repo failed, will load operator image to all nodes"
    fi
    load_on_nodes "$file"
}
