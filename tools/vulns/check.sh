#!/bin/sh
# Looks for known vulnerabilities in redstalk and its modules, with govulncheck. It fails if it finds one.
# If the database cannot be reached it prints a line, and does not fail. VULNDB is the URL of another
# database than that of Go.
#
# check.sh [PACKAGE…]    without packages: all
set -u
cd "$(dirname "$0")/../.."
GO=${GO:-go}
TOOLS=$PWD/bin/tools
[ $# -gt 0 ] || set -- ./...

GOBIN=$TOOLS GOFLAGS=-mod=mod $GO install golang.org/x/vuln/cmd/govulncheck@v1.9.0 || exit 1
said=$("$TOOLS/govulncheck" ${VULNDB:+-db "$VULNDB"} "$@" 2>&1)
code=$?
case "$code:${VULNDB:-}:$said" in
  0:*)
    printf 'govulncheck: %s\n' "$said" ;;
  *'Get "http'* | *'unexpected status'* | ?:http*'unrecognized vulndb format'*) # the last is said of what is not there, too
    printf 'govulncheck: NOT CHECKED, the database of vulnerabilities cannot be reached: %s\n' "$(printf %s "$said" | tail -n 1)" ;;
  *)
    printf '%s\n' "$said"
    exit 1 ;;
esac
