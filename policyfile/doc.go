// Package policyfile reads a policy, and the settings of a server, from YAML.
//
// It is strict: an unknown key, a number that makes no limit, or a pattern that
// can match nothing is an error with its place in the file, the line itself and,
// where there is one, a suggestion. All errors of a file are reported at once, as Errors,
// and a file with errors gives nothing.
package policyfile
