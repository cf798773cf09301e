#!/usr/bin/env bash
# Runs every fuzz target of every module, each for the given time.
. "$(dirname "$0")/lib.sh"

time=${1:?usage: tools/fuzz.sh TIME, as in 10s}
ran=0
failed=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz runs a target. If the time ends within a try, the go command may report only that the deadline is exceeded, and no
# input: then the target runs again.
fuzz() {
	for again in yes no; do
		go -C "$m" test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" </dev/null 2>&1 | tee "$log" && return
		[ "$again" = yes ] && grep -q '^    context deadline exceeded$' "$log" && ! grep -q 'Failing input' "$log" || return 1
	done
}

for m in $modules; do
	# Names come first, then the line of the package they belong to.
	listing=$(go -C "$m" test -list '^Fuzz' ./...) || die "$listing"
	targets=$(awk '/^Fuzz/ { names = names " " $1 }
		/^ok/ { n = split(names, name, " "); for (i = 1; i <= n; i++) print $2, name[i]; names = "" }' <<<"$listing")
	while read -r package target; do
		[ -n "$target" ] || continue
		say "$target ($package)"
		ran=$((ran + 1))
		fuzz "$package" "$target" || failed+=("$package $target")
	done <<<"$targets"
done

[ "$ran" -gt 0 ] || die "no fuzz target found"
printf '\n%d fuzz targets, %d failed\n' "$ran" "${#failed[@]}"
if [ ${#failed[@]} -gt 0 ]; then
	printf '  %s\n' "${failed[@]}"
	die "Commit the input written under testdata/fuzz together with the fix."
fi
