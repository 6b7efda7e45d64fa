#!/bin/sh
# Builds the packages of the clients: the sdist and the wheel for Python, the .tgz for npm, the gem, and the .zip for
# Composer, with their checksums in SHA256SUMS. The build is reproducible.
#
# A package is opened outside of this repository, so it gets the license, its part of CHANGELOG.md, and links to the pages
# below HOME_PAGE, which tools/rename-module.sh changes. Publish these files, not the directories. (A Go module is no file that
# is built: the go command takes it from the repository at the tags clients/go/vVERSION and clients/go/otel/vVERSION, with the
# license, and pkg.go.dev follows its links there.)
#
# clients.sh VERSION DIR [CLIENT...]    the packages of these clients, or of all, into the directory DIR
set -eu
cd "$(dirname "$0")/../.."
VERSION=$1
mkdir -p "$2"
OUT=$(cd "$2" && pwd)
shift 2
[ $# != 0 ] || set -- $(ls clients | grep -vx go)
HOME_PAGE=https://example.invalid/redstalk

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
STAGES=$(mktemp -d)
trap 'rm -rf "$STAGES"' EXIT

# absolute makes the links of a page absolute that lead to files of this repository.
absolute() {
  sed -E -e 's#\]\((\.\./)+#](#g' -e "s#\]\((README\.md|CHANGELOG\.md|docs/|clients/|tools/)#]($HOME_PAGE/blob/HEAD/\1#g"
}

# changes writes what CHANGELOG.md says about a client: the items that name it, or all clients.
changes() {
  echo '# Changelog'
  awk -v client="clients/$1" '
    function flush() { if (item ~ client "[^a-z]" || item ~ /^- The clients /) { printf "%s%s", head, item; head = "" } item = "" }
    /^## / { flush(); head = "\n" $0 "\n\n"; next }
    /^(### |$)/ { flush(); next }
    /^- / { flush() }
    { item = item $0 "\n" }
    END { flush() }' CHANGELOG.md
}

# stage copies a client, as git knows it, to the directory where its package is built.
stage() {
  git ls-files -z "clients/$1" | tar --null -T - -c | tar -C "$STAGES" -x --strip-components=1
  absolute <"clients/$1/README.md" >"$STAGES/$1/README.md"
  changes "$1" | absolute >"$STAGES/$1/CHANGELOG.md"
  cp LICENSE "$STAGES/$1/"
  find "$STAGES/$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

build_python() {
  printf 'include CHANGELOG.md\nprune tests\n' >MANIFEST.in
  /usr/bin/python3 -m build --no-isolation --outdir "$STAGES/built" .
  # The sdist has the time of its files in it, and of itself.
  mkdir "$STAGES/sdist"
  tar -C "$STAGES/sdist" -xzf "$STAGES/built/redstalk-$VERSION.tar.gz"
  tar -C "$STAGES/sdist" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c "redstalk-$VERSION" |
    gzip -n9 >"$OUT/redstalk-$VERSION.tar.gz"
  cp "$STAGES/built/"*.whl "$OUT/"
}

build_typescript() {
  npm ci --ignore-scripts --no-audit --no-fund
  npm pack --pack-destination "$OUT"
}

# Composer takes a package of a directory with artifacts only if it has a version, as tags are not there.
build_php() {
  sed -i "s#^    \"name\": .*#&\n    \"version\": \"$VERSION\",#" composer.json
  rm -r tests phpunit.xml.dist .gitignore
  touch -d "@$SOURCE_DATE_EPOCH" . composer.json
  COMPOSER_ALLOW_SUPERUSER=1 composer archive --no-interaction --format=zip --dir="$OUT" --file="redstalk-redstalk-$VERSION"
}

build_ruby() {
  gem build --output "$OUT/redstalk-$VERSION.gem" redstalk.gemspec
}

for client in "$@"; do
  stage "$client"
  set +e # as -e has no effect in a condition
  (set -e; cd "$STAGES/$client"; "build_$client") >"$STAGES/said" 2>&1
  code=$?
  set -e
  [ $code = 0 ] || { cat "$STAGES/said" >&2; exit 1; }
done
cd "$OUT"
sha256sum redstalk*"$VERSION"*.* >SHA256SUMS
cat SHA256SUMS
