// Package spelling gives each value of a request one spelling, by which keys and conditions compare it: hosts, methods,
// cookies, credentials and signed tokens. It also says which values services read differently.
package spelling
