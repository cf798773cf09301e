// Package keys makes keys from the values of requests, without a string for each key. A Buffer holds the keys of one
// request, and a Ref is one key in it.
package keys
