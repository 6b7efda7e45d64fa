#!/bin/sh
# After the files are gone. deb: $1 is remove, purge, or upgrade. rpm: $1 is 0 when the last one is gone.
set -e
case "$1" in
  remove|0|purge) ;;
  *) exit 0 ;;
esac
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
if [ "$1" = purge ] || [ "$1" = 0 ]; then
  rmdir /etc/redstalk 2>/dev/null || true
  [ ! -d /var/lib/redstalk ] || echo "The jobs of redstalk are still in /var/lib/redstalk: remove that if you do not want them any more."
fi
