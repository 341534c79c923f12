#!/usr/bin/env bash
# Makes the image's base of Debian's packages, where no registry of images can be reached: what python:3.11-slim-bookworm is, with Debian's
# own Python 3.11.  base.sh ARCHIVE [OPTION OF MMDEBSTRAP ...]; DEBIAN_MIRROR names another mirror than Debian's own.
# The same versions of packages make the same archive, by SOURCE_DATE_EPOCH.
set -euo pipefail

archive="$1"
shift
command -v mmdebstrap >/dev/null || {
    echo "missing: mmdebstrap, which makes the image's base of Debian's packages. Debian, Ubuntu: apt-get install mmdebstrap." >&2
    exit 1
}

# What nobody reads in a container is not unpacked, now or later, but licences are; a container that broke off while it was made is thrown
# away, so that nothing has to wait for the disk. What apt is told on this machine (99mmdebstrap) is not for others.
mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,python3,python3-venv \
    --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --customize-hook='find "$1/usr" -name __pycache__ -type d -prune -exec rm -rf {} +' \
    --customize-hook='rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig/aux-cache "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old' \
    --customize-hook='rm -f "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/etc/machine-id "$1"/etc/apt/apt.conf.d/99mmdebstrap' \
    "$@" bookworm "$archive" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
