#!/bin/sh
# Installs the Debian packages named as arguments that are missing, with the program
# of the same name if they have one, and keeps apt from starting their services.
set -eu

missing=
for tool in "$@"; do
  command -v "$tool" >/dev/null 2>&1 && continue
  dpkg -s "$tool" >/dev/null 2>&1 && continue
  missing="$missing $tool"
  [ "$tool" != gcc ] || missing="$missing libc6-dev"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "please install:$missing" >&2
  exit 1
fi
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
echo "installing$missing"
# Waits for another running apt.
$as_root apt-get -o DPkg::Lock::Timeout=300 update -q
# RUNLEVEL=1 keeps the packages' scripts from starting services.
$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $missing
