#!/bin/sh
# Run @name@ from its image, on a machine without a Python that is new enough.
#
# The image's files are unpacked once below GCUSHARE_CACHE, from images/@image@.tar of this package or else from docker,
# podman, nerdctl or ctr, whichever has the image or can pull it. They bring a Python and a C library of their own, so the
# program runs on this machine itself, with its files, its network and its systemctl.
#
# GCUSHARE_IMAGE_TOOL names one tool; GCUSHARE_REPOSITORY and GCUSHARE_TAG name another image.
# shellcheck disable=SC3067 # dash, bash and busybox know test -O
set -eu
name=@name@
image=${GCUSHARE_REPOSITORY:-@repository@}/@image@:${GCUSHARE_TAG:-@tag@}
here=$(dirname "$(readlink -f "$0")")
fail() {
    printf 'error: %s\nwhat to do: %s\n' "$1" "$2" >&2
    exit 1
}
case "$*" in --version)
    echo "@shown@ @version@"
    exit 0
    ;;
esac
case $(uname -m) in
x86_64) loader=lib64/ld-linux-x86-64.so.2 ;;
aarch64) loader=lib/ld-linux-aarch64.so.1 ;;
*) fail "there is no image for this machine, $(uname -m)" "run $name on x86_64 or aarch64" ;;
esac

# containerd keeps the images of Kubernetes in a namespace of its own.
run_tool() {
    case $tool in
    nerdctl | ctr) "$tool" --namespace k8s.io "$@" ;;
    *) "$tool" "$@" ;;
    esac
}
save_image() { # save_image FILE
    for tool in ${GCUSHARE_IMAGE_TOOL:-docker podman nerdctl ctr}; do
        command -v "$tool" >/dev/null 2>&1 || continue
        case $tool in
        ctr)
            run_tool images ls --quiet 2>/dev/null | grep -qxF "$image" || run_tool images pull "$image" >&2 || continue
            run_tool images export "$1" "$image" >&2 && return 0
            ;;
        *)
            run_tool image inspect "$image" >/dev/null 2>&1 || run_tool pull "$image" >&2 || continue
            run_tool save --output "$1" "$image" >&2 && return 0
            ;;
        esac
    done
    fail "no docker, podman, nerdctl or ctr on this machine has the image $image, or can pull it" \
        "copy @image@.tar into $here/images from a machine that has it, or take the release's gcushare-linux-amd64 or gcushare-linux-arm64"
}
# unpack FILE FOLDER: the layers of a saved image.
unpack() {
    layers=$(tar -xOf "$1" manifest.json | tr -d ' \n' | sed 's/.*"Layers":\[\([^]]*\)\].*/\1/' | tr -d '"' | tr ',' ' ')
    for layer in $layers; do
        # From a file: only there tar finds out by itself whether it is compressed.
        tar -xOf "$1" "$layer" >"$2.layer" && tar -xf "$2.layer" -C "$2" || return 1
    done
}

if [ -n "${GCUSHARE_CACHE:-}" ]; then
    cache=$GCUSHARE_CACHE
elif [ "$(id -u)" = 0 ]; then
    # Not below HOME: sudo may keep the HOME of a user, who could then change what root runs.
    cache=/var/cache/gcushare
else
    cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp/gcushare-$(id -u)}/.cache}/gcushare
fi
advice="set GCUSHARE_CACHE to a directory of your own, with 300 MB free, on a file system that programs may be started from"
(umask 077 && mkdir -p "$cache") || fail "the directory $cache cannot be made" "$advice"
[ -O "$cache" ] || fail "the directory $cache belongs to another user" "$advice"
# A saved image is known by its manifest, one of a tool by its name: delete the folder if another image has that name now.
saved=
for file in "$here/images/@image@.tar" "$here/../images/@image@.tar"; do [ ! -f "$file" ] || saved=$file; done
if [ -n "$saved" ]; then key=$(tar -xOf "$saved" manifest.json | sha256sum | cut -c 1-16); else key=$image; fi
root=$cache/image-$(printf '%s' "$key" | tr -c 'a-zA-Z0-9.-' '_')
if [ ! -d "$root" ]; then
    new=$cache/.new-$$
    trap 'rm -rf "$new" "$new".*' EXIT
    rm -rf "$new"
    mkdir "$new" || fail "the directory $cache cannot be written to" "$advice"
    [ -n "$saved" ] || save_image "$new.image"
    unpack "${saved:-$new.image}" "$new" || fail "the image was not unpacked to $cache" "$advice"
    [ -x "$new/$loader" ] || fail "the image is not for this machine, $(uname -m)" "bring the image for it"
    mv "$new" "$root"
    # If another start was faster the move went into its directory.
    rm -rf "$root/.new-$$" "$new".*
    trap - EXIT
fi
[ -O "$root" ] || fail "the directory $root belongs to another user" "$advice"
libraries=$(find "$root" -path '*/lib/python3.*' -prune -o -name '*.so*' -print | sed 's,/[^/]*$,,' | sort -u | tr '\n' ':')
python=$(echo "$root"/usr/local/bin/python3.*)
unset GCUSHARE_CACHE
# No variable of the environment changes this Python (-I), and it writes no bytecode next to its files (-B).
exec "$root/$loader" --inhibit-cache --library-path "${libraries%:}" "$python" -I -B -X utf8 "$root/usr/local/bin/$name" "$@"
