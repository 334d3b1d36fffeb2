# shellcheck shell=bash
# Build the image of one package and save it. Sourced by the build-image.sh of the packages, which set name and title.
# shellcheck disable=SC2154 # set by the script that sources this, and by common.sh
# shellcheck source=deploy/lib/images.sh
. "${BASH_SOURCE[0]%/*}/images.sh"

build_image() {
    local platform=${GCUSHARE_PLATFORM:-} python_image=${GCUSHARE_PYTHON_IMAGE:-} index=${GCUSHARE_PIP_INDEX_URL:-}
    set_common_defaults
    while [ $# -gt 0 ]; do
        case $1 in
        --platform) take_value "$1" $# && platform=$2 ;;
        --python-image) take_value "$1" $# && python_image=$2 ;;
        --pip-index-url) take_value "$1" $# && index=$2 ;;
        -h | --help)
            say "Usage: build-image.sh [OPTION...]

Build the image of $name and save it as images/$name.tar.

$REPOSITORY_HELP
  --tool TOOL          docker, podman, nerdctl or buildah (GCUSHARE_IMAGE_TOOL; otherwise the first that works)
  --platform PLATFORM  linux/amd64 or linux/arm64 (GCUSHARE_PLATFORM, this machine's)
  --python-image IMAGE image that CPython is taken from (GCUSHARE_PYTHON_IMAGE, see deploy/image/Dockerfile)
  --pip-index-url URL  another package registry (GCUSHARE_PIP_INDEX_URL)"
            return 0
            ;;
        *) common_option "$@" || fail "unknown option '$1'" "see $0 --help" ;;
        esac
        shift 2
    done
    # What people call again after an error: publish.sh calls this script from a copy.
    local root path image file former built='' arguments=() command=${GCUSHARE_COMMAND:-$0}
    root=$(cd "$sources" && pwd)
    path=$(image_path "$here/$name-chart") || exit 1
    tag=${tag:-$(image_tag "$here/$name-chart")}
    image=$path:$tag
    file=images/$name.tar
    cd "$here" || fail "the folder $here cannot be entered"
    find_tools docker podman nerdctl buildah || fail "no tool that builds images works here ($problems)" \
        "install docker, podman, nerdctl or buildah, or start its service; or copy images/$name.tar from a machine that has built it"
    say "1. Clear old image if exist"
    say "the old image is removed after the new one is built"
    say "2. Build image start..."
    say "image name:$path, image version:$tag"
    # The time of the last commit, so that the same sources give the same files.
    local epoch=${SOURCE_DATE_EPOCH:-}
    [ -n "$epoch" ] || epoch=$(git -C "$root" log -1 --format=%ct 2>/dev/null) || epoch=
    [ -z "$epoch" ] || arguments+=("SOURCE_DATE_EPOCH=$epoch")
    [ -z "$python_image" ] || arguments+=("PYTHON_IMAGE=$python_image")
    [ -z "$index" ] || arguments+=("PIP_INDEX_URL=$index")
    for tool in "${tools[@]}"; do
        former=$(image_id "$image")
        # Bash before 4.4 takes an empty array for an unset variable.
        if build_with "$image" "$name" "$platform" "$root" ${arguments[@]+"${arguments[@]}"}; then
            built=yes
            break
        fi
        say "$tool did not build the image"
    done
    [ -n "$built" ] || fail "the image was not built (tried: ${tools[*]}); the former image was not touched" \
        "see the errors above; if the base image cannot be pulled give --python-image, if packages cannot be downloaded --pip-index-url; then run $command again"
    say "build image success"
    remove_former "$former" "$image"
    say "3. save image to ./images"
    mkdir -p images
    # Under another name first: a file that was cut off must not pass for an image.
    rm -f "$file.part"
    save_with "$image" "$file.part" || fail "the image was not saved to $here/$file" "free some disk space there and run $command again"
    mv "$file.part" "$file"
    pwd
    say "build success, you can deploy $title use deploy.sh"
}
