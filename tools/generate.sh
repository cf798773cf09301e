#!/usr/bin/env bash
# Generates code from proto files, beside them. With -check it only lists generated files that
# are out of date, and fails if there are any.
. "$(dirname "$0")/lib.sh"

protos=$(find "$PWD" -name '*.proto' -not -path '*/.*' -not -path '*/testdata/*' | sort)
# shellcheck disable=SC2086 # one word each: the names of our files have no spaces
in_module tools go run ./protogen "$@" $protos
