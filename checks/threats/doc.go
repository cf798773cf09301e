// Package threats does to a limited service what attackers do, over connections, with a store
// in memory and with a real Redis.
package threats
