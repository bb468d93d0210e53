#!/usr/bin/env bash
# Megabytes of site-packages less torch, and packages, of each kind of install, in a fresh environment:
#   benchmarks/install_size.sh [python3.11]
set -euo pipefail
cd "$(dirname "$0")/.."
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
"${1:-python3}" -m venv "$room"
pip=("$room/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install -c constraints.txt "$(grep '^torch==' constraints.txt)"
for extras in "" "[serve]" "[serve,export]" "[train,serve,export]"; do
  "${pip[@]}" install -c constraints.txt ".$extras"
  site=$(echo "$room"/lib/python*/site-packages)
  all=$(du -sm --apparent-size "$site" | cut -f1)
  torch=$(du -smc --apparent-size "$site"/torch "$site"/torch-* "$site"/torchgen "$site"/functorch | tail -1 | cut -f1)
  echo "opencse$extras: $((all - torch)) MB, $("$room/bin/python" -m pip list --format freeze | wc -l) packages"
done
