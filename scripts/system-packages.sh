#!/bin/sh
# Installs the servers and the browser the tests start themselves. Does nothing where they are there already.
set -eu
have_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }
have_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1
have_nginx() { command -v nginx || [ -x /usr/sbin/nginx ]; } >/dev/null 2>&1
wanted=""
have_postgres || wanted="$wanted postgresql"
have_chromium || wanted="$wanted chromium"
have_nginx || wanted="$wanted nginx"
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "The tests need PostgreSQL's server programs, Chromium and nginx: install your distribution's packages:$wanted." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Only the programs are wanted; the tests start clusters of their own.
mkdir -p /etc/postgresql-common
grep -qs '^create_main_cluster' /etc/postgresql-common/createcluster.conf \
  || echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $wanted >/dev/null
