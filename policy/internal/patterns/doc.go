// Package patterns reads the patterns of paths that rules match, and compares clean paths with them.
package patterns
