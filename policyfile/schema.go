package policyfile

import (
	_ "embed"
	"slices"
)

//go:generate go test -run TestSchemaIsThatOfTheTypes -update .

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of files, for editors: what the types say, with their
// documentation. What is right by it can still be wrong: Parse knows more.
func Schema() []byte { return slices.Clone(schema) }
