#!/usr/bin/env bash
# Every check of the source that does not run it. All checks run, also when one fails.
. "$(dirname "$0")/lib.sh"

failed=()

# step NAME REMEDY COMMAND… runs one check.
step() {
	local name=$1 remedy=$2
	shift 2
	say "$name"
	if ! "$@"; then
		printf '%s: %s\n' "$name" "$remedy" >&2
		failed+=("$name")
	fi
}

formatted() {
	local files
	files=$("$(tool gofumpt)" -l .) || return
	[ -z "$files" ] && return
	printf '%s\n' "$files" >&2
	return 1
}

words() { (cd tools && GOWORK=off go run ./wordcheck ..); }
tests() { (cd tools && GOWORK=off go run ./testcheck ..); }
imports() { (cd tools && GOWORK=off go run ./importcheck ..); }

step "gofumpt" "run make fmt" formatted
step "importcheck" "the rules are the table in tools/importcheck/house.go" imports
step "wordcheck" "write plain words: the habits are the table in tools/wordcheck/habits.go" words
step "testcheck" "the findings have the remedies" tests
# What the linters found is remembered with paths: other clones must not see it.
export GOLANGCI_LINT_CACHE=$PWD/.cache/golangci-lint
lint=$(tool golangci-lint)
for m in $modules $outside; do
	step "go mod tidy ($m)" "run go mod tidy in $m" in_module "$m" go mod tidy -diff
	step "go vet ($m)" "see above" in_module "$m" go vet ./...
	# Tests compile there too: constants must fit into an int of 32 bits.
	step "go vet for 386 ($m)" "see above" in_module "$m" env GOARCH=386 CGO_ENABLED=0 go vet ./...
	step "golangci-lint ($m)" "see above; an exception is //nolint:name // reason" in_module "$m" "$lint" run --allow-parallel-runners ./...
done

if [ ${#failed[@]} -gt 0 ]; then
	printf '\nlint failed:\n' >&2
	printf '  %s\n' "${failed[@]}" >&2
	exit 1
fi
printf '\nlint passed\n'
