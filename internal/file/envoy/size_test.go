package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// TestTooLargeTogether checks the bound of all files of a folder.
func TestTooLargeTogether(t *testing.T) {
	dir := t.TempDir()
	for i := range maxSize/reader.MaxFileSize + 1 {
		text := fmt.Sprintf("domain: d%d\n%s\n", i, strings.Repeat("#", reader.MaxFileSize-100))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the most is %d", maxSize)) {
		t.Error(err)
	}
}
