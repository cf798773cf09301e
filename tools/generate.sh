#!/usr/bin/env bash
# Writes the code that is made from proto files, beside them. With -check it only
# tells which is not what its proto file makes, and fails then.
. "$(dirname "$0")/lib.sh"

protos=$(find "$PWD" -name '*.proto' -not -path '*/.*' -not -path '*/testdata/*' | sort)
# shellcheck disable=SC2086 # one word each: the names of our files have no spaces
in_module tools go run ./protogen "$@" $protos
