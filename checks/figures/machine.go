package figures

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine describes where figures come from.
func Machine() string {
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// Versions lists those of the given modules that are built into this program.
func Versions(modules []string) Table {
	t := Table{{"module", "version"}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	wanted := map[string]bool{}
	for _, m := range modules {
		wanted[m] = true
	}
	for _, d := range info.Deps {
		if wanted[d.Path] {
			t = append(t, []string{d.Path, d.Version})
		}
	}
	return t
}
