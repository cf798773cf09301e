// Package policyfile reads a policy, and the settings of a server, from YAML.
//
// Load reads a file and the files that it names. The result is a [File], whose Policy method
// compiles the rules.
//
// The reader is strict. An unknown setting, a number that makes no limit, or a pattern that can match
// nothing is an error. An error has its position in the file, the line itself and, if there is one, a
// suggestion. All errors of a file are reported at once, as [Errors]; a file with errors is not used at
// all.
//
// The types of the settings, their comments and tags are the source of the JSON Schema that
// [Schema] returns and of docs/configuration.md.
package policyfile
