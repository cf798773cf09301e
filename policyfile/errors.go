package policyfile

import "strings"

// Pos is a place in a file; both numbers begin at one.
type Pos struct {
	Line, Column int
}

// Error is one mistake in a file.
type Error struct {
	// File is the file's name.
	File string
	// Pos is where the mistake is.
	Pos Pos
	// Path is which setting it is, such as "rules[0].limit.rate"; empty for the file as a whole.
	Path string
	// Problem says what is wrong.
	Problem string
	// Suggestion says what would be right; it may be empty.
	Suggestion string
	// Source is the line of the file.
	Source string
}

func (e *Error) Error() string { return e.Problem }

// Errors are the mistakes of a file, in their order in it. There is at least one.
type Errors []*Error

func (es Errors) Error() string {
	var b strings.Builder
	for _, e := range es {
		b.WriteString(e.Error())
		b.WriteByte('\n')
	}
	return b.String()
}
