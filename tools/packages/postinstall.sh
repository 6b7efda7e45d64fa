#!/bin/sh
# After the files are there. deb: $1 is configure, and $2 the version before, if there was one.
# rpm: $1 is 1 for the first package, more for an upgrade.
set -e

# The layout of the embedded engine (tables.LayoutVersion), and the first version that has it.
LAYOUT=3 SINCE=0.3.0

upgrade= before=
case "$1" in
  configure) [ -z "$2" ] || upgrade=1 before=$2 ;;
  abort-*) exit 0 ;;
  1) ;;
  *) upgrade=1 before=$(rpm -q --qf '%{VERSION}\n' redstalk 2>/dev/null | sort -V | head -n 1) ;;
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
oldest=$(printf '%s\n' "${before:-$SINCE}" $SINCE | sort -V | head -n 1)
if [ -n "$upgrade" ] && [ "$oldest" != $SINCE ]; then
  cat >&2 <<END
redstalk $before is still running. The next start gives its data layout $LAYOUT, which $before refuses: there is no way back but a
backup (/usr/share/doc/redstalk/docs/backup.md). To go on: make one, and systemctl restart redstalk.
To stay: install redstalk $before again.
END
elif [ -n "$upgrade" ]; then
  systemctl try-restart redstalk.service 'redstalk@*.service' redstalk-outbox.service
else
  systemctl enable --now redstalk.service || case $(systemctl show -p ExecMainStatus --value redstalk.service) in
    111) cat >&2 <<END
redstalk does not start: another server has its port, perhaps a beanstalkd. Stop that one for good (systemctl disable --now beanstalkd), or choose
another port (REDSTALK_PORT in /etc/redstalk/redstalkd.env). Then: systemctl start redstalk
END
    ;;
    *) echo "redstalk does not start: journalctl -u redstalk says why" >&2 ;;
  esac
fi
