// Package threats attacks a limited service over connections, as attackers do, with a store in memory and
// with a real Redis.
package threats
