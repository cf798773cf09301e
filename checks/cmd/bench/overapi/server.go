package overapi

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The names of servers.
const (
	sluiceServer = "sluice"
	bareServer   = "bareapi"
)

// config limits what the callers request, and never denies.
const config = `version: 1
listen: {proxy: "off", api: '%s', admin: "off"}
rules: [{name: api, match: {path: /api/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}]
`

// server is a process.
type server struct {
	address string
	process *exec.Cmd
}

// startAll builds and starts both servers. The servers that run must be stopped even after an error.
func startAll(work string) (map[string]*server, error) {
	servers := map[string]*server{}
	for name, path := range map[string]string{
		sluiceServer: "github.com/sluicehq/sluice/server/cmd/sluice", bareServer: "github.com/sluicehq/sluice/checks/cmd/bareapi",
	} {
		program := filepath.Join(work, name)
		if out, err := exec.Command("go", "build", "-o", program, path).CombinedOutput(); err != nil { //nolint:noctx // it ends by itself
			return servers, fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
		address, err := freeAddress()
		if err != nil {
			return servers, err
		}
		args := []string{address}
		if name == sluiceServer {
			file := filepath.Join(work, "sluice.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, config, address), 0o600); err != nil {
				return servers, err
			}
			args = []string{"serve", file}
		}
		s := &server{address, exec.Command(program, args...)} //nolint:noctx // stop ends it
		if err := s.process.Start(); err != nil {
			return servers, err
		}
		servers[name] = s
		if err := s.answers(); err != nil {
			return servers, fmt.Errorf("%s does not answer: %w", name, err)
		}
	}
	return servers, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// answers waits until the server accepts connections.
func (s *server) answers() error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var err error
	for range 1000 {
		<-tick.C
		var c net.Conn
		if c, err = net.Dial("tcp", s.address); err == nil { //nolint:noctx // it is closed at once
			return c.Close()
		}
	}
	return err
}

// stop ends the process.
func (s *server) stop() {
	_ = s.process.Process.Kill() // a process that has ended is what is wanted
	_ = s.process.Wait()         // it was killed
}

// cpu returns the time that the process has used.
func (s *server) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	const tick = time.Second / 100
	sum := time.Duration(0)
	_, rest, _ := strings.Cut(string(text), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
