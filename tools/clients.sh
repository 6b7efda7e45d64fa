#!/bin/sh
# Installs the missing clients of `make test-clients`: with apt, and jackd and gRPC
# with npm in testdata/clients/node, in the versions of its lock file.
set -eu
cd "$(dirname "$0")/.."

missing=
php -r 'exit((include "Pheanstalk/autoload.php") && extension_loaded("pcntl") ? 0 : 1);' >/dev/null 2>&1 ||
  missing="$missing php-cli php-pda-pheanstalk"
ruby -e 'require "beaneater"' >/dev/null 2>&1 || missing="$missing ruby ruby-beaneater"
nc -h 2>&1 | grep -q OpenBSD || missing="$missing netcat-openbsd"
command -v bash >/dev/null 2>&1 || missing="$missing bash"
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
command -v npm >/dev/null 2>&1 || missing="$missing npm"

if [ -n "$missing" ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "please install:$missing" >&2
    exit 1
  fi
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  echo "installing$missing"
  $as_root apt-get update -q
  $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends $missing
fi

cd testdata/clients/node
npm ls >/dev/null 2>&1 || npm ci --no-audit --no-fund
