#!/bin/sh
# Gives this module the path of its public home: in go.mod, wherever Go code or a page names a package, and as
# https://PATH in the packages of the clients. Then it prints the lines that say that there is no public home yet.
#
# rename-module.sh PATH    such as github.com/NAME/redstalk
set -eu
cd "$(dirname "$0")/.."
OLD=$(go list -m) NEW=$1
OLD_HOME=$OLD
[ "$OLD" != redstalk ] || OLD_HOME=example.invalid/redstalk

find . -name go.mod -exec sed -i -E "s#(^|[[:space:]])$OLD(/|\$)#\1$NEW\2#g" {} +
find . -name '*.go' -exec sed -i "s#\"$OLD/\\([a-z]\\)#\"$NEW/\\1#g" {} +
find . -name node_modules -prune -o -type f \( -path './clients/*' -o -path './tools/packages/*' -o -name '*.md' \) -exec sed -i -E \
  -e "s#https://$OLD_HOME([^[:alnum:]-]|\$)#https://$NEW\1#g" -e "s#(^|[^[:alnum:]./-])$OLD/clients/go#\1$NEW/clients/go#g" {} +
gofmt -w . # the order of imports, and below of requirements
find . -name go.mod -exec go mod edit -fmt {} \;
grep -rn --include='*.md' --exclude-dir=node_modules 'public home' . || true
