#!/usr/bin/env bash
# Make the bundles of static/vendor from the npm packages of package-lock.json, with their licences,
# and the manifest of their versions and checksums. The same lock gives the same bytes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/../static/vendor}
axe=${2:-$here/../../tests/console/vendor}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/*.js "$here"/package*.json "$work"
cd "$work"
npm ci --ignore-scripts --no-audit --no-fund --silent
mkdir -p "$target" "$axe"
for bundle in editor interface plot; do
  node_modules/.bin/esbuild "$bundle.js" --bundle --format=esm --minify --target=es2022 \
    --legal-comments=none --metafile="$work/$bundle.json" --log-level=warning \
    --outfile="$target/$bundle.js"
done
cp node_modules/uplot/dist/uPlot.min.css "$target/plot.css"
cp node_modules/axe-core/axe.min.js "$axe/axe.js"
cp node_modules/axe-core/LICENSE "$axe/axe.LICENSE"
node manifest.js "$target" "$axe"
