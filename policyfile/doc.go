// Package policyfile reads a policy from YAML.
//
// Load reads a file and the files that it names. The result is a [File], whose Policy method
// compiles the rules.
//
// The file may be the configuration of the server. Its other settings, such as listen and store, are not read:
// [File.Warnings] names them.
//
// Reading is strict. An unknown setting, a number that makes no limit, or a pattern that can match
// nothing is an error. An error has its position in the file, the line itself and, if there is one, a
// suggestion. All errors of a file are reported at once, as [Errors]; a file with errors is not used at
// all.
package policyfile
