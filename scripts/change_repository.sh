#!/usr/bin/env bash
# Have everything that names the images name another registry and path: change_repository.sh NEW [DIRECTORY [TAG]]
#
# For forks and private registries: charts, scripts, plain manifests and documents say the same afterwards. With TAG charts
# and plain manifests name that tag too, as those of a release do.
set -euo pipefail
# shellcheck source=deploy/lib/usage.sh
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib/usage.sh"
own_arguments 1 3 "$@"
new=$1
tag=${3:-}
cd "${2:-$(dirname "${BASH_SOURCE[0]}")/..}"
values=deploy/gcushare-device-plugin/build-and-deploy/gcushare-device-plugin-chart/values.yaml
old=$(sed -n 's/^  repository: *//p' "$values" | head -n 1)
[ -n "$old" ] || { echo "error: $values names no repository" >&2; exit 1; }
part='[a-z0-9]+([._-]+[a-z0-9]+)*'
[[ $new =~ ^(\[[0-9a-f:]+\]|$part)(:[0-9]{1,5})?(/$part)*$ ]] || {
    echo "error: '$new' is no registry and path; write it in lower case, without https:// and //: registry.local/gcushare" >&2
    exit 2
}
case $tag in *[!a-zA-Z0-9._-]*) echo "error: '$tag' is no tag, such as v0.1.0" >&2; exit 2 ;; esac
replace() { # replace OLD FILE...: in the files below these that name it
    local name=$1
    shift
    { grep -rlF --exclude-dir=.git -- "$name" "$@" || true; } | while read -r file; do
        [ -L "$file" ] || sed -i "s#$(printf '%s' "$name" | sed 's/[.[]/\\&/g')#$new#g" "$file"
    done
}
replace "$old" deploy
# Unless they were changed before, documents name what their readers replace by a registry of their own.
documents=(docs README.md README.zh-CN.md) example=registry.local/gcushare
! grep -rqF -- "$old" "${documents[@]}" || example=$old
replace "$example" "${documents[@]}"
if [ -n "$tag" ]; then
    name=$(printf '%s' "$new" | sed 's/[.[]/\\&/g')
    find deploy -name values.yaml -type f -exec \
        sed -i "\\#^ *repository: $name\$#,/^ *tag:/ s/^\( *tag:\).*/\1 \"$tag\"/" {} +
    find deploy/manifests -name '*.yaml' -exec sed -i "s#\($name/gcushare-[a-z-]*\):[A-Za-z0-9._-]*#\1:$tag#" {} +
fi
echo "images are at $new${tag:+, with the tag $tag}"
