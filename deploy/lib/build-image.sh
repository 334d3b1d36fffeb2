# shellcheck shell=bash
# Build one package's image and save it: sourced by the packages' build-image.sh, which set name and words.
# shellcheck disable=SC2154 # set by the script that sources this, and by common.sh

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
  --tool TOOL          docker, podman, nerdctl or buildah (GCUSHARE_IMAGE_TOOL, the first that works)
  --platform PLATFORM  linux/amd64 or linux/arm64 (GCUSHARE_PLATFORM, this machine's)
  --python-image IMAGE where CPython comes from (GCUSHARE_PYTHON_IMAGE, see deploy/image/Dockerfile)
  --pip-index-url URL  another package registry (GCUSHARE_PIP_INDEX_URL)"
            return 0
            ;;
        *) common_option "$@" || fail "unknown option '$1'" "see $0 --help" ;;
        esac
        shift 2
    done
    local root image file arguments=()
    root=$(cd "$sources" && pwd)
    image=$repository/$name:$tag
    file=images/$name.tar
    cd "$here" || fail "$here cannot be entered"
    find_tool build docker podman nerdctl buildah
    say "1. Clear old image if exist"
    remove_with "$image" 2>/dev/null || true
    say "2. Build image start..."
    say "image name:$repository/$name, image version:$tag"
    # The last commit's time, so that the same sources give the same files.
    local epoch=${SOURCE_DATE_EPOCH:-}
    [ -n "$epoch" ] || epoch=$(git -C "$root" log -1 --format=%ct 2>/dev/null) || epoch=
    [ -z "$epoch" ] || arguments+=("SOURCE_DATE_EPOCH=$epoch")
    [ -z "$python_image" ] || arguments+=("PYTHON_IMAGE=$python_image")
    [ -z "$index" ] || arguments+=("PIP_INDEX_URL=$index")
    build_with "$image" "$name" "$platform" "$root" ${arguments[@]+"${arguments[@]}"} ||
        fail "the image was not built" "mend what $tool says above and run $0 again; behind a firewall see --python-image and --pip-index-url"
    say "build image success"
    say "3. save image to ./images"
    mkdir -p images
    # Under another name first: a file that was cut off must not pass for an image.
    rm -f "$file.part"
    save_with "$image" "$file.part" || fail "the image was not saved to $here/$file" "make room there and run $0 again"
    mv "$file.part" "$file"
    pwd
    say "build success, you can deploy $words use deploy.sh"
}
