#!/usr/bin/env bash
# Makes sure that valkey-server is installed: tests run over it and over redis-server. Like need, it
# installs packages only for root on Debian; for other users it prints what to install.
. "$(dirname "$0")/lib.sh"

missing="valkey-server is missing: install it and have it in PATH (Debian 12: apt-get install valkey-server, from the backports; elsewhere the package that provides valkey-server)"

if command -v valkey-server >/dev/null; then
	exit
fi
if [ ! -e /etc/debian_version ] || [ "$(id -u)" != 0 ]; then
	die "$missing"
fi

# known succeeds if the package is in one of apt's sources.
known() { [ -n "$(apt-cache madison valkey-server 2>/dev/null)" ]; }

# with_backports COMMAND… runs a command while apt has an additional source: the backports to this
# release, from the same server. The source and its lists are gone afterwards.
with_backports() (
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016 # apt fills it in
	server=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
		"Codename: $codename" 'Origin: Debian' | head -n 1)
	[ -n "$server" ] || die "$missing"
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	[ -e "$keys" ] || die "$keys is missing: apt-get install debian-archive-keyring"

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work" # apt downloads as a user of its own
	mkdir "$work/lists"
	{
		[ ! -e /etc/apt/sources.list ] || cat /etc/apt/sources.list
		printf '\ndeb [signed-by=%s] %s %s-backports main\n' "$keys" "$server" "$codename"
	} >"$work/sources.list"
	cat >"$work/apt.conf" <<-CONF
		Dir::Etc::sourcelist "$work/sources.list";
		Dir::State::lists "$work/lists";
		Dir::Cache::pkgcache "";
		Dir::Cache::srcpkgcache "";
	CONF
	export APT_CONFIG=$work/apt.conf
	"$@"
)

known || apt-get update -qq </dev/null
if known; then
	say "installing valkey-server"
	install_packages valkey-server
else
	say "installing valkey-server from the backports"
	with_backports install_packages valkey-server
fi
command -v valkey-server >/dev/null || die "$missing"
