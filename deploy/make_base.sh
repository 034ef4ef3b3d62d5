#!/usr/bin/env bash
# Makes the Docker image mistbow-base, Debian with Python and Java, where no image registry is in
# reach: by debootstrap, from Debian's packages. Needs root. Used by `make base`.
set -euo pipefail

name=${1:-mistbow-base}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

debootstrap --variant=minbase \
  --include=ca-certificates,openjdk-17-jre-headless,python3,python3-venv bookworm "$folder"
rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/* \
  "$folder"/usr/share/{doc,man,locale}/*
tar -C "$folder" -c . | docker import --change 'CMD ["/bin/bash"]' - "$name"
