#!/bin/sh
# Builds the packages twice and compares them, looks into the .rpm and the bills of materials, installs
# the .deb in a bare Debian made by mmdebstrap, serves from it, puts and reserves a job, upgrades, removes
# and purges it. It needs root, mmdebstrap, rpm, python3-jsonschema, and the tools of clients.sh.
#
# test.sh VERSION
set -eu
VERSION=$1
NEXT=${VERSION%.*}.$((${VERSION##*.} + 1))
cd "$(dirname "$0")/../.."
WORK=$(mktemp -d)
SERVER=
end() {
  [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || true
  rm -rf --one-file-system "$WORK"
}
trap end EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }

sh tools/packages/build.sh "$VERSION" "$WORK/one" >/dev/null
sh tools/packages/build.sh "$VERSION" "$WORK/two" >/dev/null
for build in one two; do sh tools/packages/clients.sh "$VERSION" "$WORK/$build/clients" >/dev/null; done
for sums in SHA256SUMS clients/SHA256SUMS; do
  cmp "$WORK/one/$sums" "$WORK/two/$sums" || fail "two builds differ"
done
echo "ok: two builds have the same bytes"
sh tools/packages/build.sh "$NEXT" "$WORK/next" >/dev/null

for arch in amd64 arm64; do
  for file in $(sed -n 's/^COPY //p' tools/deploy/Dockerfile | tr ' ' '\n' | sed -n "s/^linux_\${TARGETARCH}/linux_$arch/p"); do
    test -e "$WORK/one/$file" || fail "there is no $file for the image"
  done
done
echo "ok: the files of the image are there"

# The .rpm is opened, and has what the .deb has.
for arch in amd64:x86_64 arm64:aarch64; do
  deb=$WORK/one/redstalk_${VERSION}_${arch%:*}.deb rpm=$WORK/one/redstalk_${VERSION}_${arch%:*}.rpm
  dpkg-deb --fsys-tarfile "$deb" | tar t | grep -v '/$' | sed 's/^\.//' | sort >"$WORK/deb.files"
  rpm -qp --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' "$rpm" | sed -n 's/^[^d]\S* //p' | sort >"$WORK/rpm.files"
  cmp "$WORK/deb.files" "$WORK/rpm.files" || fail "$rpm has other files than the .deb"
  grep -qx /usr/share/doc/redstalk/NOTICES "$WORK/deb.files" || fail "$deb has no notices"
  for file in docs/*.md docs/benchmarks/*.md docs/alerts.yml docs/grafana.json docs/console/*.png; do
    grep -qx "/usr/share/doc/redstalk/$file" "$WORK/deb.files" || fail "$deb has no $file"
  done
  grep -qx /usr/share/redstalk/alerts.yml "$WORK/deb.files" || fail "$deb has no alerts"
  test "$(rpm -qp --queryformat '%{NAME} %{VERSION} %{ARCH}' "$rpm")" = "redstalk $VERSION ${arch#*:}" || fail "the names in $rpm"
  test "$(rpm -qcp "$rpm" | sort | xargs)" = "/etc/logrotate.d/redstalk /etc/redstalk/redstalkd.env" || fail "the settings in $rpm"
  rpm -qp --scripts "$rpm" | grep -q systemd-sysusers || fail "the scripts in $rpm"
  rpm -K --nosignature "$rpm" | grep -q 'digests OK' || fail "the sums in $rpm"
done
echo "ok: the .rpm is opened, and has the $(wc -l <"$WORK/rpm.files") files of the .deb"

# The bills of materials are what their schema wants, and have all that the linker has noted.
(cd "$WORK" && npm pack --silent @cyclonedx/cyclonedx-library@10.3.0 >/dev/null && tar xzf cyclonedx-*.tgz)
for arch in amd64 arm64; do
  tar -C "$WORK" -xzf "$WORK/one/redstalk_${VERSION}_$arch.tar.gz"
  for program in redstalk redstalkd; do
    bill=$WORK/one/${program}_${VERSION}_$arch.sbom.json
    python3 -W ignore tools/packages/sbom/schema.py "$WORK/package/res/schema" "$bill" >"$WORK/billed" || fail "$bill"
    ${GO:-go} version -m "$WORK/redstalk-$VERSION-$arch/$program" |
      awk 'NR == 1 { print "std@" substr($2, 3) } $1 == "dep" { print $2 "@" $3 }' >"$WORK/linked"
    cmp "$WORK/billed" "$WORK/linked" || fail "$bill has other parts than the program"
    sed -e '/^std@/d' -e 's/@/ /' "$WORK/linked" | while read -r part; do
      grep -qF "$part: " "$WORK/redstalk-$VERSION-$arch/NOTICES" || fail "the notices lack $part"
    done
  done
done
echo "ok: the bills of materials are as CycloneDX 1.6 has them, with the $(wc -l <"$WORK/linked") parts of the server, and the notices have them all"

ARCH=$(dpkg --print-architecture)
# A mirror may be older than its own date of expiry: what is tested here is not Debian.
SUITE=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mmdebstrap --variant=minbase --include=passwd --aptopt='Acquire::Check-Valid-Until "false"' "$SUITE" "$WORK/root" \
  "deb ${MIRROR:-http://deb.debian.org/debian} $SUITE main" >"$WORK/mmdebstrap.log" 2>&1 || {
  tail -20 "$WORK/mmdebstrap.log"
  fail "mmdebstrap"
}
in_root() { chroot "$WORK/root" "$@"; }
cp "$WORK/one/redstalk_${VERSION}_$ARCH.deb" "$WORK/next/redstalk_${NEXT}_$ARCH.deb" "$WORK/root/tmp/"

in_root dpkg -i "/tmp/redstalk_${VERSION}_$ARCH.deb"
in_root redstalk -v | grep -qx "redstalk version $VERSION" || fail "the version of redstalk"
in_root redstalkd -v | grep -qx "redstalkd $VERSION" || fail "the program is not there"
in_root sh -c 'test "$(stat -c %U:%a /var/lib/redstalk)" = redstalk:750 && test -f /etc/redstalk/redstalkd.env' || fail "the directory of the jobs, or the settings"
gzip -dc "$WORK/root/usr/share/man/man8/redstalkd.8.gz" | grep -q 'max.-job.-size' || fail "the man page"

# As the unit does it, without systemd: the settings, the user, the directory.
PORT=$(sed -n 's/^REDSTALK_PORT=//p' "$WORK/root/etc/redstalk/redstalkd.env")
serve() {
  chroot --userspec=redstalk "$WORK/root" sh -c 'set -a; . /etc/redstalk/redstalkd.env; cd /var/lib/redstalk; exec redstalkd' 2>"$WORK/log" &
  SERVER=$!
  for _ in $(seq 600); do
    in_root redstalkd healthcheck -p "$PORT" 2>/dev/null && return
    sleep 0.1
  done
  cat "$WORK/log"
  fail "the server does not answer"
}
serve
in_root redstalk put hello >/dev/null || fail "put"
kill "$SERVER"
wait "$SERVER" || true

echo '# changed' >>"$WORK/root/etc/redstalk/redstalkd.env"
in_root dpkg -i "/tmp/redstalk_${NEXT}_$ARCH.deb"
grep -q '^# changed' "$WORK/root/etc/redstalk/redstalkd.env" || fail "an upgrade overwrites the settings"
serve
in_root redstalk reserve | grep -q hello || fail "the job is not there after an upgrade"
kill "$SERVER"
wait "$SERVER" || true
SERVER=
echo "ok: installed, served, upgraded, served the same job"

in_root dpkg -r redstalk
test -f "$WORK/root/etc/redstalk/redstalkd.env" || fail "a removal takes the settings away"
in_root dpkg -P redstalk >"$WORK/purge"
grep -q 'still in /var/lib/redstalk' "$WORK/purge" || fail "a purge does not say where the jobs are"
LEFT=$(find "$WORK/root" -xdev -path "$WORK/root/proc" -prune -o -name '*redstalk*' -print | grep -v -e /var/lib/redstalk -e "$WORK/root/tmp/" || true)
[ -z "$LEFT" ] || fail "a purge leaves $LEFT"
test -d "$WORK/root/var/lib/redstalk/jobs" || fail "a purge takes the jobs away"
echo "ok: removed and purged; only the jobs are left"
