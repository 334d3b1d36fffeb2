#!/usr/bin/env bash
# Build the image of gcushare-scheduler-extender and save it under images/. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# In a package that was carried here alone the sources lie below it.
sources=$here/source
[ -d "$sources" ] || sources=$here/../../..
# shellcheck source=deploy/lib/common.sh
. "$sources/deploy/lib/common.sh"
# shellcheck source=deploy/lib/build-image.sh
. "$sources/deploy/lib/build-image.sh"
# shellcheck disable=SC2034 # read by build_image
name=gcushare-scheduler-extender words="gcushare scheduler extender"
build_image "$@"
