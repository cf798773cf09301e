// Package paths cleans the paths of requests, and finds the variants of a path: the ways in which services may resolve
// its dots and encoded slashes.
package paths
