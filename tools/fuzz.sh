#!/usr/bin/env bash
# Runs every fuzz target of every module, each for the given time.
. "$(dirname "$0")/lib.sh"

time=${1:?usage: tools/fuzz.sh TIME, as in 10s}
ran=0
failed=()
for m in $modules; do
	# Names come first, then the line of the package they belong to.
	listing=$(go -C "$m" test -list '^Fuzz' ./...) || die "$listing"
	targets=$(awk '/^Fuzz/ { names = names " " $1 }
		/^ok/ { n = split(names, name, " "); for (i = 1; i <= n; i++) print $2, name[i]; names = "" }' <<<"$listing")
	while read -r package target; do
		[ -n "$target" ] || continue
		say "$target ($package)"
		ran=$((ran + 1))
		go -C "$m" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null || failed+=("$package $target")
	done <<<"$targets"
done

[ "$ran" -gt 0 ] || die "no fuzz target found"
printf '\n%d fuzz targets, %d failed\n' "$ran" "${#failed[@]}"
if [ ${#failed[@]} -gt 0 ]; then
	printf '  %s\n' "${failed[@]}"
	die "Commit the input written under testdata/fuzz together with the fix."
fi
