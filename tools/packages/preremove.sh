#!/bin/sh
# Before the files go. deb: $1 is remove, or upgrade. rpm: $1 is 0 when the last package goes.
set -e
case "$1" in
  remove|0) ;;
  *) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now redstalk-backup.timer redstalk-outbox.service redstalk.socket redstalk.service >/dev/null 2>&1 || true
systemctl stop 'redstalk@*.service' >/dev/null 2>&1 || true
