#!/bin/sh
# Installs the servers the tests start themselves. Does nothing where they are there already.
set -eu
have_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }
have_postgres && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "The tests need PostgreSQL's server programs: install your distribution's 'postgresql' package." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Only the programs are wanted; the tests start clusters of their own.
mkdir -p /etc/postgresql-common
grep -qs '^create_main_cluster' /etc/postgresql-common/createcluster.conf \
  || echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf
apt-get install -y -qq --no-install-recommends postgresql >/dev/null
