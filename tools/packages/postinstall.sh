#!/bin/sh
# After the files are there. deb: $1 is configure, and $2 the version before, if there was one.
# rpm: $1 is 1 for the first package, more for an upgrade.
set -e

upgrade=
case "$1" in
  configure) [ -z "$2" ] || upgrade=1 ;;
  abort-*) exit 0 ;;
  1) ;;
  *) upgrade=1 ;;
esac

if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers redstalk.conf
elif ! getent passwd redstalk >/dev/null 2>&1; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/redstalk --shell /usr/sbin/nologin redstalk
fi
mkdir -p /var/lib/redstalk
chown redstalk:redstalk /var/lib/redstalk
chmod 0750 /var/lib/redstalk
chgrp redstalk /etc/redstalk/redstalkd.env

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$upgrade" ]; then
  systemctl try-restart redstalk.service 'redstalk@*.service'
else
  systemctl enable --now redstalk.service || echo "redstalk does not start: journalctl -u redstalk says why" >&2
fi
