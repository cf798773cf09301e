package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/server/internal/config"
)

// TestMemoryWarning: a max_size that a control group does not allow is a warning, in both versions of control groups.
func TestMemoryWarning(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		files map[string]string
		warns bool
	}{
		"no groups":           {nil, false},
		"unbounded":           {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, false},
		"enough":              {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "402653184\n"}, false},
		"too little":          {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "268435456\n"}, true},
		"too little above":    {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "268435456\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, true},
		"a container":         {map[string]string{"proc/self/cgroup": "0::/docker/1\n", "sys/fs/cgroup/memory.max": "134217728\n"}, true},
		"version 1":           {map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "268435456\n"}, true},
		"version 1 unbounded": {map[string]string{"proc/self/cgroup": "4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, false},
	} {
		root := t.TempDir()
		for file, text := range row.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := &config.File{}
		f.Store.Memory.MaxSize = 256 << 20
		if w := memoryWarningAt(f, root); (w != "") != row.warns || row.warns && !strings.Contains(w, "store.memory.max_size is 256MiB") {
			t.Errorf("%s: the warning is %q, want one: %v", name, w, row.warns)
		}
	}
}
