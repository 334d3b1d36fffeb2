#!/usr/bin/env bash
# Build the image of gcushare-scheduler-extender and save it under images/. See --help.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib/common.sh
. "$here/../../lib/common.sh"
# shellcheck source=deploy/lib/build-image.sh
. "$here/../../lib/build-image.sh"
# shellcheck disable=SC2034 # read by build_image
name=gcushare-scheduler-extender words="gcushare scheduler extender"
build_image "$@"
