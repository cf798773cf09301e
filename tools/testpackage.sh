#!/usr/bin/env bash
# Installs what the tests of packages and the image need, and runs them. The Debian package is installed in a copy of
# this machine, for which the tests need root.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || die "these tests install packages in a copy of this machine: run make test-package as root"
need lintian lintian
need rpm rpm
need skopeo skopeo
need systemd-analyze systemd
need chroot coreutils
in_module tools/release go test -count 1 -vet=off -timeout 20m ./...
