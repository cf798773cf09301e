#!/usr/bin/env bash
# Measures how much of each module its own tests run. A package counts as
# covered by the tests of its whole module.
. "$(dirname "$0")/lib.sh"

mkdir -p bin
profile=$PWD/bin/cover.out
part=$PWD/bin/cover.part
echo "mode: atomic" >"$profile"
for m in $modules; do
	[[ $m != checks && $m != bench ]] || continue # they hold tests and measurements of the others
	say "$m"
	go -C "$m" test -covermode=atomic -coverpkg=./... -coverprofile="$part" ./... >bin/cover.log 2>&1 ||
		die "$(cat bin/cover.log)"
	tail -n +2 "$part" >>"$profile"
	go -C "$m" tool cover -func="$part" | tail -n 1
done
rm -f "$part" bin/cover.log
say "all"
go tool cover -func="$profile" | tail -n 1
echo "Line by line: go tool cover -html=bin/cover.out"
