#!/usr/bin/env bash
# Have everything that names the images name another registry and path: change_repository.sh NEW [DIRECTORY]
#
# For forks and private registries: charts, scripts, plain manifests and documents say the same afterwards.
set -euo pipefail
new=${1:?change_repository.sh NEW [DIRECTORY], such as registry.local/gcushare}
cd "${2:-$(dirname "${BASH_SOURCE[0]}")/..}"
values=deploy/gcushare-device-plugin/build-and-deploy/gcushare-device-plugin-chart/values.yaml
old=$(sed -n 's/^  repository: *//p' "$values" | head -n 1)
[ -n "$old" ] || { echo "error: $values names no repository" >&2; exit 1; }
case $new in
*[!a-zA-Z0-9./:_-]* | "") echo "error: '$new' is no registry and path, such as registry.local/gcushare" >&2; exit 2 ;;
esac
grep -rlF --exclude-dir=.git --exclude-dir=.venv -- "$old" deploy docs README.md README.zh-CN.md 2>/dev/null | while read -r file; do
    [ -L "$file" ] || sed -i "s#$(printf '%s' "$old" | sed 's/[.]/\\./g')#$new#g" "$file"
done
echo "images are at $new"
