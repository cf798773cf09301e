// Package overrides keeps the overrides that operators make by call: in Redis, where all servers read them, or in a journal of this
// server. The book of overrides puts them into the table of the policy. See docs/adr/0074.
package overrides
