# Shared by the scripts in this folder, which all start with
#   . "$(dirname "$0")/lib.sh"
# and from there on run in the top folder of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# say prints a heading.
say() { printf '\n== %s\n' "$*"; }

# die prints what is wrong and what to do, and stops.
die() {
	printf '%s\n' "$*" >&2
	exit 1
}

# The folder of each module in go.work, "." first.
modules=$(go work edit -json go.work | sed -n 's/.*"DiskPath": "\([^"]*\)".*/\1/p' | sed 's|^\./||' | sort)

# The modules outside the workspace: no other module gets their dependencies. Not here is checks/traefik, which has no
# Go file, and which only tools/traefik.sh downloads.
outside="tools tools/release bench/gubernator checks/chart checks/frameworks checks/ratelimit"

# in_module FOLDER COMMAND… runs a command there, with the workspace that the
# module belongs to, if it belongs to one.
in_module() {
	local dir=$1
	shift
	if [[ " $outside " = *" $dir "* ]]; then
		(cd "$dir" && GOWORK=off "$@")
	else
		(cd "$dir" && "$@")
	fi
}

# tool NAME prints the path of a pinned tool's program; Go's build cache keeps it.
tool() { GOWORK=off go -C tools tool -n "$1"; }

# install_packages PACKAGE… installs Debian packages, and does not start their services:
# tests start their own servers.
install_packages() (
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		trap 'rm -f "$policy"' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	apt-get update -qq </dev/null
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
)

# need COMMAND PACKAGE… makes sure that a command is there. It installs the
# packages only for root on Debian; for other users it prints what to install.
need() {
	local command=$1
	shift
	if command -v "$command" >/dev/null; then
		return
	fi
	if [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
		say "installing $*, which bring $command"
		install_packages "$@"
		command -v "$command" >/dev/null || die "$command is still missing: install what provides it"
	else
		die "$command is missing: install it (Debian: apt-get install $*; elsewhere the package that provides $command)"
	fi
}

# need_python MODULE PACKAGE makes sure that there is a Python with a module: the system's, or the one in PATH.
need_python() {
	local python module=$1 package=$2
	for round in found installed; do
		for python in /usr/bin/python3 python3; do
			if "$python" -c "import $module" 2>/dev/null; then
				return
			fi
		done
		[ "$round" = found ] || break
		if [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
			say "installing $package"
			install_packages "$package"
		fi
	done
	die "no Python has $module: install it (Debian: apt-get install $package; elsewhere the package that provides $module for python3)"
}

# need_php makes sure that PHP has its client for Redis.
need_php() {
	need php php-cli php-redis
	if ! php -r 'exit(class_exists("Redis") ? 0 : 1);'; then
		[ -e /etc/debian_version ] && [ "$(id -u)" = 0 ] || die "PHP has no client for Redis: install it (Debian: apt-get install php-redis; elsewhere phpredis)"
		say "installing php-redis"
		install_packages php-redis
		php -r 'exit(class_exists("Redis") ? 0 : 1);' || die "PHP still has no client for Redis: install phpredis"
	fi
}

# need_npm FOLDER installs the npm packages of a folder's package-lock.json into its node_modules, unless they are there.
# The folder is in a testdata, where Go's tools look for nothing.
need_npm() {
	local folder=$1
	local installed=$folder/node_modules/installed.json
	need node nodejs
	if cmp -s "$folder/package-lock.json" "$installed"; then
		return
	fi
	need npm npm
	say "installing the npm packages of $folder"
	npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel error </dev/null ||
		die "npm cannot install the packages of $folder: see above; it needs its registry, or a cache that has them"
	cp "$folder/package-lock.json" "$installed"
}

# need_nginx_lua makes sure that nginx has its module for Lua, where the examples look for it.
need_nginx_lua() {
	local module=/usr/lib/nginx/modules/ngx_http_lua_module.so
	if [ ! -e "$module" ] && [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
		say "installing the Lua module of nginx"
		install_packages libnginx-mod-http-lua
	fi
	[ -e "$module" ] || die "$module is missing: install it (Debian: apt-get install libnginx-mod-http-lua)"
}

# need_gateways makes sure of the gateways and services that checks/gateways and checks/threats start. Some are where
# only root's PATH leads.
need_gateways() {
	PATH=$PATH:/usr/sbin
	need nginx nginx
	need_nginx_lua
	need haproxy haproxy
	need caddy caddy
	need node nodejs
	need_python flask python3-flask
}

# need_libfaketime makes sure that there is a libfaketime, where checks/redistest looks for it.
need_libfaketime() {
	local round library
	for round in found installed; do
		for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib*/faketime/libfaketimeMT.so.1; do
			if [ -e "$library" ]; then
				return
			fi
		done
		[ "$round" = found ] || break
		if [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
			say "installing libfaketime"
			install_packages libfaketime
		fi
	done
	if [ "$(uname)" = Linux ]; then
		die "libfaketime is missing: install it (Debian: apt-get install libfaketime; elsewhere the package that provides libfaketimeMT.so.1)"
	fi
}

# testall TIER FOLDER… -- FLAG… runs the tests of some modules: see tools/testall.
testall() {
	local runner
	runner=$(mktemp -d)
	# shellcheck disable=SC2064 # the folder of now
	trap "rm -rf '$runner'" EXIT
	GOWORK=off go -C tools build -o "$runner/testall" ./testall
	"$runner/testall" "$@"
}

# need_all makes sure of all that the tests of a day need.
need_all() {
	# The race detector needs cgo, and that a C compiler.
	[ "${CGO_ENABLED:-1}" = 1 ] || die "CGO_ENABLED=$CGO_ENABLED: the race detector needs cgo; unset it"
	need "$(go env CC | cut -d' ' -f1)" gcc libc6-dev
	# The tests in checks/ start their own servers. The variable names another program for them; some
	# run over Valkey in any case.
	[ -n "${SLUICE_REDIS_SERVER:-}" ] || need redis-server redis-server
	tools/valkey.sh
	# A test loses packets between network namespaces.
	if [ "$(uname)" = Linux ]; then
		need ip iproute2
		need nsenter util-linux
	fi
	# checks/gateways runs the examples of gateways, and checks/threats attacks them.
	need_gateways
	# checks/protocols has clients of Redis in several languages.
	need redis-cli redis-tools
	need_python redis python3-redis
	need_php
	need_npm checks/protocols/testdata/ioredis
	# checks/schemas generates clients of the API, and lints its description.
	need_npm checks/schemas/testdata/typescript
	# checks/browser opens the page for operators.
	need chromium chromium fonts-dejavu-core
	need tmux tmux
	# checks/monitoring loads alerts into Prometheus.
	need promtool prometheus
	# checks/hybrid gives a server a wrong clock.
	need_libfaketime
}
