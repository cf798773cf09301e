// Package threats attacks limited services over connections, as attackers do: a service in this process,
// with a store in memory and with a real Redis; and nginx, HAProxy, node, Python and Go services behind the
// program sluice, with generated requests.
package threats
