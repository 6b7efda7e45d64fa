#!/bin/sh
# Makes a minimal Debian in $CHROOTS/SUITE for each SUITE, with PHP frameworks, clients and servers
# of its time, so that `make test-clients` can run old versions. What is there already is
# kept, unless the list of packages has changed. It needs root, mmdebstrap and a minute or more.
#
# chroots.sh SUITE...
set -eu
cd "$(dirname "$0")/.."
CHROOTS=${CHROOTS:-bin/chroots}
PACKAGES=php-cli,php-mbstring,php-xml,php-sqlite3,php-redis,phpunit,php-pda-pheanstalk,php-laravel-framework
PACKAGES=$PACKAGES,php-symfony-messenger,php-symfony-beanstalkd-messenger,php-symfony-redis-messenger
PACKAGES=$PACKAGES,php-symfony-framework-bundle,php-symfony-yaml,php-symfony-cache,ruby,ruby-beaneater,beanstalkd,redis-server

mkdir -p "$CHROOTS"
for suite in "$@"; do
  root=$CHROOTS/$suite
  [ "$(cat "$root/packages" 2>/dev/null)" != "$PACKAGES" ] || continue
  echo "making $root"
  rm -rf --one-file-system "$root" "$root.new"
  # A mirror may be older than its own date of expiry: what is tested here is not Debian.
  timeout 1200 mmdebstrap --variant=minbase --include="$PACKAGES" --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    "$suite" "$root.new" "deb ${MIRROR:-http://deb.debian.org/debian} $suite main" >"$root.log" 2>&1 || {
    tail -20 "$root.log"
    exit 1
  }
  echo "$PACKAGES" >"$root.new/packages"
  mv "$root.new" "$root"
done
