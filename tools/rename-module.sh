#!/bin/sh
# Changes the path of this module, in go.mod and wherever Go code names a package.
#
# rename-module.sh PATH
set -eu
cd "$(dirname "$0")/.."
OLD=$(go list -m) NEW=$1
find . -name go.mod -exec sed -i "s#^module $OLD\\(/.*\\)\\{0,1\\}\$#module $NEW\\1#" {} +
find . -name '*.go' -exec sed -i "s#\"$OLD/\\([a-z]\\)#\"$NEW/\\1#g" {} +
gofmt -w . # the order of imports
