# Gives the commands of redisclients_test.go by redis-cli. Arguments: host, port, token.
set -euo pipefail
cli() { REDISCLI_AUTH=$3 redis-cli -h "$1" -p "$2" "${@:4}"; }
at=("$@")
do_() { cli "${at[@]}" "$@"; }

do_ CL.THROTTLE user123 15 30 60 | xargs
do_ CL.THROTTLE user123 15 30 60 3 | xargs
do_ CL.THROTTLE user123 15 30 60 100 | xargs
do_ -3 --json SLUICE.CHECK pair 192.0.2.1 COST COST 1 | grep -o '"remaining":[0-9]*' | tr -d '"' | tr ':' ' '
do_ SLUICE.CHECK pair 192.0.2.1 COST COST 3 | tail -n 1 | sed 's/^/denied /'
do_ CL.THROTTLE user123 15 0 60 | sed '/^$/d; s/^/error /'
do_ get x | sed '/^$/d; s/: this server.*//; s/^ERR //; s/^/error /'
printf 'pipelined'
for _ in 1 2 3 4; do echo CL.THROTTLE pipelined 2 1 3600; done | do_ | sed -n '1~5p' | while read -r n; do printf ' %s' "$n"; done
echo
printf 'transaction'
{ echo MULTI; for _ in 1 2 3 4; do echo CL.THROTTLE transaction 2 1 3600; done; echo EXEC; } | do_ | sed '1,5d' | sed -n '1~5p' | while read -r n; do printf ' %s' "$n"; done
echo
printf '%s\n' MULTI 'CL.THROTTLE aborted 1 1 3600' 'get x' EXEC | do_ | sed -n 's/^EXECABORT.*/aborted/p'
do_ CL.THROTTLE aborted 1 1 3600 0 | sed -n '3s/^/left /p'
do_ ttl x | sed -n 's/.*; /instead of ttl: /p'
