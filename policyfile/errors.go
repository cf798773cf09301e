package policyfile

import "github.com/sluicehq/sluice/internal/file/reader"

// Pos is a position in a file: its Line and Column, which begin at one. The zero Pos means no position, as in a File
// that was not parsed.
type Pos = reader.Pos

// Error is one mistake in a file. File and Pos say where it is. Path is the faulty setting, such as "rules[0].limit.rate".
// Problem says what is wrong, and Suggestion what would be right. Source is the line of the file, without secrets; Excerpt
// returns it with a mark under the mistake.
type Error = reader.Error

// Errors are the mistakes of a file, in their order in the file, and then the mistakes of files that
// it names. There is at least one.
type Errors = reader.Errors
