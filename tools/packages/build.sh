#!/bin/sh
# Builds the packages: .deb, .rpm and .tar.gz for ARCHES, amd64 and arm64, with the licenses of all modules of the
# programs, a bill of materials for each (SBOM, CycloneDX), and the checksums in SHA256SUMS; and linux_ARCH, the
# files of the container image. The build is reproducible: nothing depends on the time, the machine or the directory.
#
# build.sh VERSION DIR    into the directory DIR; with KINDS=deb only that package. The maintainer is MAINTAINER, 'NAME <MAIL>', or else
# the author of the commit.
set -eu
cd "$(dirname "$0")/../.."
VERSION=$1 OUT=$2
GO=${GO:-go}
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4

# The time of the last commit is that of all files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
BUILD_DATE=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
ARCHES=${ARCHES:-amd64 arm64} KINDS=${KINDS:-deb rpm tar.gz image}
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%an <%ae>' 2>/dev/null || echo 'redstalk <redstalk@localhost>')}
export MAINTAINER VERSION SOURCE_DATE_EPOCH BUILD_DATE TZ=UTC LC_ALL=C GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0
umask 022

mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
STAGES=$(mktemp -d)
trap 'rm -rf "$STAGES"' EXIT

# step says what is done now.
step() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }

# wants reports whether a kind is to be built.
wants() { case " $KINDS " in *" $1 "*) ;; *) return 1 ;; esac }

# manual writes the man page of the server from its help.
manual() {
  printf '.TH REDSTALKD 8 "%s" "redstalk %s"\n.SH NAME\nredstalkd \\- a work queue that speaks the beanstalk protocol\n.SH SYNOPSIS AND OPTIONS\n.nf\n' \
    "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)" "$VERSION"
  "$1" -h | sed -e 's/\\/\\\\/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
  printf '.fi\n.SH FILES\n/etc/redstalk/redstalkd.env, /var/lib/redstalk\n.SH SEE ALSO\nredstalk(1), /usr/share/doc/redstalk\n'
}

step "programs for this machine, for the manuals"
native=$STAGES/native
mkdir "$native"
$GO build -ldflags "-s -w -buildid= -X main.Version=$VERSION" -o "$native/" ./cmd/redstalk ./cmd/redstalkd
"$native/redstalk" man >"$native/redstalk.1"
manual "$native/redstalkd" >"$native/redstalkd.8"
gzip -n9 "$native/redstalk.1" "$native/redstalkd.8"
for shell in bash zsh fish; do "$native/redstalk" completion $shell >"$native/redstalk.$shell"; done

# The tools run here, whatever they build for.
step "tools for packages: the first time this takes longest"
mkdir "$STAGES/bin"
GOBIN=$STAGES/bin GOFLAGS=-mod=mod $GO install $NFPM
$GO build -o "$STAGES/bin/" ./tools/packages/sbom ./tools/packages/notices

# The pages with their pictures, what they link to, and what Prometheus and Grafana load.
step "pages"
doc=$STAGES/doc
mkdir -p "$doc/docs/benchmarks" "$doc/docs/console" "$doc/tools" "$STAGES/share"
cp README.md CHANGELOG.md "$doc/"
cp docs/*.md "$doc/docs/"
cp docs/benchmarks/*.md "$doc/docs/benchmarks/"
cp docs/console/*.png "$doc/docs/console/"
cp -R tools/deploy "$doc/tools/"
rm -r "$doc/tools/deploy/kubernetes/testdata"
find "$doc/tools" \( -name '*.go' -o -name go.mod -o -name go.sum \) -delete
find "$doc/tools" -type d -empty -delete
cp docs/alerts.yml docs/grafana.json "$STAGES/share/"
chmod -R u=rwX,go=rX "$doc" "$STAGES/share"

for ARCH in $ARCHES; do
  step "programs for $ARCH"
  STAGE=$STAGES/redstalk-$VERSION-$ARCH
  export ARCH STAGE
  mkdir "$STAGE"
  GOOS=linux GOARCH=$ARCH $GO build -ldflags "-s -w -buildid= -X main.Version=$VERSION" -o "$STAGE/" ./cmd/redstalk ./cmd/redstalkd
  GO=$GO GOOS=linux GOARCH=$ARCH "$STAGES/bin/notices" ./cmd/redstalk ./cmd/redstalkd >"$STAGE/NOTICES"
  cp -R "$STAGES/doc" "$STAGES/share" "$STAGE/"
  cp "$native"/*.gz "$native"/redstalk.bash "$native"/redstalk.zsh "$native"/redstalk.fish "$STAGE/"
  for kind in deb rpm; do
    wants $kind || continue
    step "$kind for $ARCH"
    "$STAGES/bin/nfpm" package --config tools/packages/nfpm.yaml --packager $kind --target "$OUT/redstalk_${VERSION}_$ARCH.$kind" >"$STAGES/said" || { cat "$STAGES/said" >&2; exit 1; }
  done
  if wants tar.gz; then
    step "tar.gz for $ARCH"
    cp LICENSE tools/packages/redstalk.service tools/packages/redstalk@.service tools/packages/redstalk.socket tools/packages/redstalk-backup.* tools/packages/redstalk-outbox.service \
      tools/packages/redstalkd.env tools/packages/sysusers.conf tools/packages/logrotate "$STAGE/"
    tar -C "$STAGES" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "redstalk-$VERSION-$ARCH" |
      gzip -n9 >"$OUT/redstalk_${VERSION}_$ARCH.tar.gz"
  fi
  if wants image; then
    rm -rf "$OUT/linux_$ARCH"
    mkdir -p "$OUT/linux_$ARCH/data"
    cp LICENSE "$STAGE/NOTICES" "$STAGE/redstalk" "$STAGE/redstalkd" "$OUT/linux_$ARCH/"
  fi
  for program in redstalk redstalkd; do
    "$STAGES/bin/sbom" $program "$VERSION" "$STAGE/$program" >"$OUT/${program}_${VERSION}_$ARCH.sbom.json"
  done
done
cd "$OUT"
step "checksums"
find . -maxdepth 1 -name "redstalk*_${VERSION}_*" -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
cat SHA256SUMS
