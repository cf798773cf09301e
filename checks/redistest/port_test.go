package redistest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPortsOfProcessesDiffer draws ports in this process and in two others, which give back none before they end. No port is
// drawn twice, so a proxy that refuses for a while, or a server that was killed, gets its port again.
func TestPortsOfProcessesDiffer(t *testing.T) {
	const child = "REDISTEST_DRAWS_PORTS"
	draw := func() []string {
		free, err := FreePorts(50)
		if err != nil {
			t.Fatal(err)
		}
		return free
	}
	if os.Getenv(child) != "" {
		os.Stdout.WriteString("ports " + strings.Join(draw(), " ") + "\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent has all
		return
	}
	all := append(draw(), draw()...)
	for range 2 {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1")
		hold, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = hold.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
		line := make([]byte, 1<<12)
		n, err := out.Read(line)
		ports, found := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "ports ")
		if err != nil || !found {
			t.Fatalf("the other process printed %q, %v; want its ports", line[:n], err)
		}
		all = append(all, strings.Fields(ports)...)
	}
	slices.Sort(all)
	if once := slices.Compact(slices.Clone(all)); len(all) != 200 || len(once) != len(all) {
		t.Errorf("%d of %d ports differ: %v", len(once), len(all), all)
	}
}
