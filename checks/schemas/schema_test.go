package schemas

import (
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
)

// TestSchemaIsStrict compiles the JSON Schema of configurations in the strict mode of ajv, as editors and pipelines do.
func TestSchemaIsStrict(t *testing.T) {
	t.Parallel()
	node, err := process.Node(npm)
	if err != nil {
		t.Fatal(err)
	}
	program := within(t, process.Patience, "", process.Program(), "schema")
	schema := filepath.Join(t.TempDir(), "schema.json")
	write(t, schema, run(t, program))
	if out := run(t, within(t, building, "", node, filepath.Join(npm, "schema.js"), schema)); out != "" {
		t.Errorf("the schema is not strict:\n%s", out)
	}
}
