#!/usr/bin/env bash
# Installs what the tests of packages, image and chart need, and runs them. The Debian package is installed in a copy of
# this machine, for which the tests need root.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || die "these tests install packages in a copy of this machine: run make test-package as root"
need lintian lintian
need rpm rpm
need skopeo skopeo
need systemd-analyze systemd
need chroot coreutils
for m in tools/release checks/chart; do
	[ ! -d "$m" ] || in_module "$m" go test -count 1 -vet=off -timeout 20m ./...
done
