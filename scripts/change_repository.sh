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
case $new in
*[!a-zA-Z0-9./:_-]* | "") echo "error: '$new' is no registry and path, such as registry.local/gcushare" >&2; exit 2 ;;
esac
case $tag in *[!a-zA-Z0-9._-]*) echo "error: '$tag' is no tag, such as v0.1.0" >&2; exit 2 ;; esac
grep -rlF --exclude-dir=.git --exclude-dir=.venv -- "$old" deploy docs README.md README.zh-CN.md 2>/dev/null | while read -r file; do
    [ -L "$file" ] || sed -i "s#$(printf '%s' "$old" | sed 's/[.]/\\./g')#$new#g" "$file"
done
if [ -n "$tag" ]; then
    name=$(printf '%s' "$new" | sed 's/[.]/\\./g')
    find deploy -name values.yaml -type f -exec \
        sed -i "\\#^ *repository: $name\$#,/^ *tag:/ s/^\( *tag:\).*/\1 \"$tag\"/" {} +
    find deploy/manifests -name '*.yaml' -exec sed -i "s#\($name/gcushare-[a-z-]*\):[A-Za-z0-9._-]*#\1:$tag#" {} +
fi
echo "images are at $new${tag:+, with the tag $tag}"
