#!/usr/bin/env bash
# Bring this checkout to a registry, and make every file that an admin installs from: publish.sh --help
#
# Works in a copy: the checkout is not changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
# shellcheck source=deploy/lib/common.sh
. deploy/lib/common.sh
# shellcheck source=deploy/lib/images.sh
. deploy/lib/images.sh

usage() {
    say "Usage: make publish REGISTRY=registry.local/gcushare [FILES_URL=URL] [ARGS='OPTION...']

Build both images, push them and the charts to REGISTRY, and make the files of a release in dist/: packages with the
images in them, single files, executables, krew's manifests, plain files and checksums. All of them name the images
REGISTRY/NAME:vVERSION. Log in to the registry before, with the tool that builds and with helm registry login.

  FILES_URL            where you will put the files of dist/; krew's manifests need it

Options:
  --tool TOOL          docker, podman, nerdctl or buildah (otherwise the first that works)
  --platform PLATFORM  linux/amd64 or linux/arm64 (this machine's)
  --python-image IMAGE image that CPython is taken from (see deploy/image/Dockerfile)
  --pip-index-url URL  another package registry for the images
  --all-pythons        single files for every released Python, not only for this one
  --plain-http         helm speaks HTTP to the registry; the image tool needs its own setting for that
  --out DIR            the folder of the files instead of dist"
}

registry='' url='' out=$root/dist all='' helm_options=() build_options=() tool=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --all-pythons) all=--all && shift && continue ;;
    --plain-http) helm_options=(--plain-http) && shift && continue ;;
    esac
    take_value "$1" $#
    case $1 in
    --registry) registry=${2%/} ;;
    --files-url) url=$2 ;;
    --out) out=$2 ;;
    --tool) tool=$2 ;;
    --platform | --python-image | --pip-index-url) build_options+=("$1" "$2") ;;
    *) fail "unknown option '$1'" "see make publish ARGS=--help" ;;
    esac
    shift 2
done
[ -n "$registry" ] || fail "no registry was named" "make publish REGISTRY=registry.local/gcushare; see make publish ARGS=--help"
[ -n "$(git log -1 --format=%h -- scripts/publish.sh)" ] || fail "$root is no checkout of git, which says what is published and of what time" \
    "clone the repository; or in an unpacked archive: git init && git add . && git commit -m \"the archive\""
helm=${HELM:-$(command -v helm || echo "$root/.cache/node_modules/.bin/helm")}
command -v "$helm" >/dev/null || fail "helm is not on PATH" "install helm 3.8 or later: it packs and pushes the charts"
"$helm" push --help >/dev/null 2>&1 || fail "$helm cannot push charts" "install helm 3.8 or later, or name one in HELM"
find_tools docker podman nerdctl buildah || fail "no tool that builds images works here ($problems)" \
    "install docker, podman, nerdctl or buildah, or start its service"
tool=${tools[0]}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' src/gcushare/_version.py)
if [ -d "$out" ] && [ -n "$(ls -A "$out")" ]; then
    fail "the folder $out is not empty" "remove it, or name another one by --out: it shall hold the files of this release alone"
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
say "== 1. A copy of the checkout that names $registry/NAME:v$version"
git ls-files -z | tar --null -cf - -T - | tar -xf - -C "$copy"
"$copy/scripts/change_repository.sh" "$registry" "$copy" "v$version"

say "== 2. Images, built and pushed with $tool"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir "$copy/images"
for name in gcushare-device-plugin gcushare-scheduler-extender; do
    folder=$copy/deploy/$name/build-and-deploy
    # Its last two lines name a folder of the copy, which will be gone.
    GCUSHARE_COMMAND="make publish" "$folder/build-image.sh" --tool "$tool" ${build_options[@]+"${build_options[@]}"} |
        head -n -2
    push_with "$registry/$name:v$version" ||
        fail "$tool did not push $registry/$name:v$version" "log in to the registry with $tool, check that it takes this path, and run the command again"
    mv "$folder/images/$name.tar" "$copy/images/"
    rm -rf "$folder/images"
done

say "== 3. Files"
HELM=$helm PYTHON=$root/.venv/bin/python SINGLE_FILES=$all "$copy/scripts/release_files.sh" "$out" "$copy/images" "$url"
[ -n "$url" ] || say "no krew manifests: FILES_URL does not say where the files will be"
(cd "$out" && sha256sum -- *) >"$copy/SHA256SUMS"
mv "$copy/SHA256SUMS" "$out/"

say "== 4. Charts, pushed"
for chart in "$out"/*-"$version".tgz; do
    "$helm" push "$chart" "oci://$registry/charts" ${helm_options[@]+"${helm_options[@]}"} ||
        fail "helm did not push $chart" "log in with '$helm registry login ${registry%%/*}' and run the command again"
done

say "
published v$version to $registry; the files are in $out. To install:
  helm install gcushare oci://$registry/charts/gcushare --version $version --namespace kube-system
  kubectl label node NODE enflame.com/gcushare=true"
