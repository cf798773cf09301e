#!/usr/bin/env bash
# Formats every Go file and tidies every module.
. "$(dirname "$0")/lib.sh"

"$(tool gofumpt)" -l -w .
for m in $modules $outside; do
	in_module "$m" go mod tidy
done
