package cli

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/server/internal/config"
)

// memoryWarning returns a warning if the states of a configuration may need more memory than the control group of this
// process allows, and an empty text otherwise.
func memoryWarning(f *config.File) string { return memoryWarningAt(f, "/") }

// memoryWarningAt is memoryWarning for a file system below a folder.
func memoryWarningAt(f *config.File, root string) string {
	allowed, ok := groupMemory(root)
	if !ok {
		return ""
	}
	m := &f.Store.Memory
	needs := m.MaxSize + m.MaxSize/4
	if m.File != "" {
		needs = 2 * m.MaxSize
	}
	if needs += processBytes; f.Store.Redis != nil || int64(needs) <= allowed {
		return ""
	}
	return fmt.Sprintf("store.memory.max_size is %v, for which the process needs %d MiB, and its control group allows %d MiB: a full store could end it", m.MaxSize, needs>>20, allowed>>20)
}

// processBytes is what the process takes beside its states, and the garbage that comes with them.
const processBytes = 48 << 20

// groupMemory returns the least bound on the memory of the control group of this process and of the groups around it.
// There is none if the system has no control groups.
func groupMemory(root string) (least int64, ok bool) {
	text, err := os.ReadFile(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return 0, false
	}
	least = math.MaxInt64
	for line := range strings.Lines(string(text)) {
		// number:controllers:path; the unified hierarchy has no controllers here.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, name := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			if parts[1] != "memory" {
				continue
			}
			mount, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// A container may see its own group as the root, and its path as the host does.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			if text, err := os.ReadFile(filepath.Join(root, mount, at, name)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // it may be "max"
					least = min(least, n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least, least < 1<<60 // without a bound, version 1 has a number near 2⁶³
}
