#!/usr/bin/env bash
# Runs the command of README.md that starts the server, as a newcomer would, and
# sends it real requests. Some must pass, some must be limited with a Retry-After,
# and the server must end cleanly on SIGTERM.
. "$(dirname "$0")/lib.sh"

proxy=http://127.0.0.1:8080/
ready=http://127.0.0.1:9090/readyz
requests=40

need curl curl ca-certificates

# The first line that runs the server: the line before it clones the repository.
command=$(grep -m 1 '^go run ' README.md) || die "README.md has no line that begins with go run"

work=$(mktemp -d)
started=

# tree PID prints that process and all below it, the deepest last.
tree() {
	local child
	echo "$1"
	for child in $(grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | sed 's|/proc/\([0-9]*\)/.*|\1|'); do
		tree "$child"
	done
}

cleanup() {
	if [ -n "$started" ]; then
		# shellcheck disable=SC2046 # one word a process
		kill -KILL $(tree "$started") 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT

# fail prints the server's log and what is wrong.
fail() {
	sed 's/^/  | /' "$work/server.log" >&2
	die "smoke: $*"
}

if curl -s -o /dev/null --max-time 2 "$ready"; then
	die "smoke: something already answers at $ready: stop it first"
fi

say "$command"
# shellcheck disable=SC2086 # the words of the command
$command >"$work/server.log" 2>&1 </dev/null &
started=$!

# Up to two minutes, since `go run` builds first.
for try in $(seq 1 600); do
	if [ "$(curl -s -o /dev/null --max-time 2 -w '%{http_code}' "$ready")" = 200 ]; then
		break
	fi
	kill -0 "$started" 2>/dev/null || fail "the command ended before $ready answered"
	[ "$try" -lt 600 ] || fail "$ready did not answer 200"
	sleep 0.2
done
sed 's/^/  | /' "$work/server.log"

passed=0
limited=0
retry=
for _ in $(seq 1 $requests); do
	curl -s -o /dev/null -D "$work/headers" --max-time 10 "$proxy" || fail "no answer from $proxy"
	status=$(awk 'NR == 1 { print $2 }' "$work/headers")
	case $status in
	200) passed=$((passed + 1)) ;;
	429)
		limited=$((limited + 1))
		retry=$(tr -d '\r' <"$work/headers" | sed -n 's/^retry-after: *\([0-9][0-9]*\)$/\1/Ip')
		[ -n "$retry" ] || fail "a 429 came without Retry-After in seconds: $(cat "$work/headers")"
		;;
	*) fail "$proxy answered $status" ;;
	esac
done
echo "$requests requests: $passed passed, $limited limited; the last one may come back in ${retry:-?} s"
[ "$passed" -gt 0 ] || fail "no request passed"
[ "$limited" -gt 0 ] || fail "no request was limited"

# `go run` does not pass SIGTERM on, so it goes to the program itself; `go run`
# then ends with the program's status.
kill -TERM "$(tree "$started" | tail -n 1)"
status=0
for try in $(seq 1 150); do
	kill -0 "$started" 2>/dev/null || break
	[ "$try" -lt 150 ] || fail "still running 30 s after SIGTERM"
	sleep 0.2
done
wait "$started" || status=$?
started=
[ "$status" = 0 ] || fail "exit status $status after SIGTERM"
echo "ended cleanly on SIGTERM"
