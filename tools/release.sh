#!/usr/bin/env bash
# Rehearses a release in a copy of the tree, makes its files in dist/, and prints the tags it would have.
# It changes nothing else.
. "$(dirname "$0")/lib.sh"

module=github.com/sluicehq/sluice
version=${1:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
	die "VERSION='$version' is not a version: write make release VERSION=v1.2.3"
[[ $version =~ ^v[01]\. ]] ||
	die "$version: a major version above 1 needs /${version%%.*} in every module path first"

# The tagged modules: all that users import or install. bench, checks and tools are for work
# on the repository.
released=()
for m in $modules; do
	[[ $m = checks || $m = bench ]] || released+=("$m")
done

tags=()
for m in "${released[@]}"; do
	tag=$version
	[ "$m" = . ] || tag=$m/$version
	tags+=("$tag")
	if git rev-parse -q --verify "refs/tags/$tag" >/dev/null; then
		die "the tag $tag is taken: choose the next version"
	fi
done

copy=$(mktemp -d)
again=$(mktemp -d)
trap 'rm -rf "$copy" "$again"' EXIT

say "files, made twice"
for out in "$PWD/dist" "$again"; do
	GOWORK=off go -C tools/release run . -version "$version" -o "$out" \
		-targets linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64
done
cmp dist/SHA256SUMS "$again/SHA256SUMS" || die "the same commit gave other bytes: see above"
cat dist/SHA256SUMS

git ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' f; do
		[ ! -e "$f" ] || printf '%s\0' "$f"
	done |
	tar -c --null -T - | tar -x -C "$copy"
cd "$copy"

say "CHANGELOG.md"
heading="## [${version#v}] - $(date -u +%Y-%m-%d)"
if grep -q "^## \[${version#v}\]" CHANGELOG.md; then
	echo "has a section for ${version#v}"
else
	notes=$(sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/p' CHANGELOG.md | grep -c '^- ' || true)
	[ "$notes" -gt 0 ] || die "CHANGELOG.md has no section [${version#v}] and nothing under [Unreleased]: write what changed"
	echo "to do: put \"$heading\" over the $notes entries of [Unreleased]"
fi

# is_released PATH succeeds if that module is tagged.
is_released() {
	local m
	for m in "${released[@]}"; do
		if [ "$1" = "$module/$m" ] || [ "$1/." = "$module/$m" ]; then
			return
		fi
	done
	return 1
}

for m in "${released[@]}"; do
	[ "$m" != . ] || continue
	say "$m/go.mod"
	replaced=$(sed -En 's/^(replace)?[[:space:]]*([^[:space:]]+)[[:space:]].*=>.*/\2/p' "$m/go.mod")
	required=$(sed -En "/=>/d; s|^(require)?[[:space:]]*($module[^[:space:]]*)[[:space:]]+v.*|\\2|p" "$m/go.mod")
	for path in $replaced; do
		is_released "$path" ||
			die "$m/go.mod replaces $path, which is not released with it; users would get another $path: remove the replace"
		go -C "$m" mod edit -dropreplace="$path"
		echo "replace $path: dropped"
	done
	for path in $required; do
		is_released "$path" || die "$m/go.mod requires $path, which is not released, so no user could build it"
		go -C "$m" mod edit -require="$path@$version"
		echo "require $path: $version"
	done
done

say "consistency"
for m in "${released[@]}"; do
	if grep -n '=>' "$m/go.mod"; then
		die "$m/go.mod still replaces a module"
	fi
	if grep -n "$module[^[:space:]]* v" "$m/go.mod" | grep -v " $version\( // indirect\)\?\$"; then
		die "$m/go.mod requires another version than $version"
	fi
done
echo "no replace directive is left; every module of ours is required at $version"

# The workspace replaces the tags, which do not exist yet.
say "build"
go work edit -dropuse=./bench -dropuse=./checks
for m in "${released[@]}"; do
	path=$module
	[ "$m" = . ] || path=$module/$m
	go work edit -replace="$path@$version=./$m"
done
for m in "${released[@]}"; do
	go -C "$m" build ./...
	echo "$m"
done

say "tags, all on the commit that holds these go.mod files"
printf '%s\n' "${tags[@]}"
printf '\nThis was a rehearsal: nothing but dist/ was changed, and nothing was tagged.\n'
