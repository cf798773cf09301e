package gateways

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// folder has the files under test.
var folder = filepath.Join("..", "..", "examples", "gateways")

func TestMain(m *testing.M) { process.Main(m) }

// gateway is how a gateway is started with its file.
type gateway struct {
	name  string
	start func(w *world)
	// down is the status of requests while there is no sluice, and hangs their status while sluice does not answer, 0 if
	// the gateway waits longer than two seconds.
	down, hangs int
	socket      bool // sluice is at a Unix socket
}

// gateways are the gateways with their files.
var gateways = []gateway{
	{name: "nginx", start: func(w *world) { w.nginx("nginx.conf") }, down: http.StatusOK, hangs: http.StatusOK, socket: true},
	{name: "nginx with Lua", start: func(w *world) { w.nginx("nginx-lua.conf") }, down: http.StatusOK, hangs: http.StatusOK},
	{name: "Caddy", start: (*world).caddy, down: http.StatusBadGateway, hangs: http.StatusGatewayTimeout},
	{name: "HAProxy", start: (*world).haproxy, down: http.StatusServiceUnavailable, hangs: http.StatusServiceUnavailable},
	{name: "Traefik", start: (*world).traefik, down: http.StatusBadGateway, hangs: http.StatusGatewayTimeout},
}

// world is a gateway before a service, with a sluice. The gateway is at 127.0.0.1, which sluice trusts. Clients have
// other addresses.
type world struct {
	*testing.T
	dir     string
	at      func(string) string // replaces the ports of the files
	gateway string              // its address
	network string              // of sluice's address: tcp or unix
	auth    string              // the address of sluice
	sluice  *process.Process
	service *service
}

// begin starts a program until the test ends, and waits until it accepts connections at an address.
func (w *world) begin(address, name string, args ...string) *process.Process {
	w.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "XDG_DATA_HOME="+w.dir, "XDG_CONFIG_HOME="+w.dir)
	p := process.Start(w, cmd)
	if err := p.Accepts(address); err != nil {
		w.Fatal(err)
	}
	return p
}

// newWorld starts a service, a sluice and a gateway. Its argument change may change the files, such as process.Patient.
func newWorld(t *testing.T, g gateway, change func(text string) string) *world {
	t.Helper()
	ports, err := redistest.FreePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: t.TempDir(), service: newService(t)}
	_, service, err := net.SplitHostPort(w.service.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "s") //nolint:usetesting // the path of a socket has a bound, and t.TempDir has the name of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) }) // the system clears what is left
	socket := "unix:" + filepath.Join(short, "auth.sock")
	replace := strings.NewReplacer("8082", ports[0], "8000", ports[1], "9090", ports[2], "8084", ports[3], "8083", ports[4], "3000", service, "unix:/run/sluice/auth.sock", socket)
	w.at = func(text string) string {
		if change != nil {
			text = change(text)
		}
		return replace.Replace(text)
	}
	w.gateway, w.network, w.auth = "127.0.0.1:"+ports[1], "tcp", "127.0.0.1:"+ports[0]
	arguments := []string{"serve", w.file("sluice.yaml", nil), "--listen-spoe", "127.0.0.1:" + ports[3]}
	if g.socket {
		arguments = append(arguments, "--listen-auth", socket)
		w.network, w.auth = "unix", strings.TrimPrefix(socket, "unix:")
	}
	w.sluice = w.begin("127.0.0.1:"+ports[2], process.Program(), arguments...) // its admin listener is the last one
	g.start(w)
	return w
}

// dialAuth connects to sluice as a gateway does.
func (w *world) dialAuth(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, w.network, w.auth)
}

// file copies a file of the folder, with free ports, and returns its path.
func (w *world) file(name string, change func(string) string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		w.Fatal(err)
	}
	changed := w.at(string(text))
	if change != nil {
		changed = change(changed)
	}
	path := filepath.Join(w.dir, filepath.Base(name))
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		w.Fatal(err)
	}
	return path
}

// nginx starts nginx. Its folders for temporary files are not part of the example.
func (w *world) nginx(name string) {
	w.Helper()
	path := w.file(name, func(text string) string {
		var own strings.Builder
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			fmt.Fprintf(&own, "    %s_temp_path %s;\n", kind, filepath.Join(w.dir, kind))
		}
		return strings.Replace(text, "http {\n", "http {\n    access_log off;\n"+own.String(), 1)
	})
	if name == "nginx-lua.conf" {
		w.file("sluice.lua", nil)
	}
	w.begin(w.gateway, "nginx", "-p", w.dir, "-c", path, "-e", "stderr", "-g", "daemon off; master_process off; pid "+filepath.Join(w.dir, "nginx.pid")+";")
}

// caddy starts Caddy.
func (w *world) caddy() {
	w.Helper()
	w.file("fail-open.caddy", nil)
	w.begin(w.gateway, "caddy", "run", "--adapter", "caddyfile", "--config", w.file("Caddyfile", nil))
}

// haproxy starts HAProxy.
func (w *world) haproxy() {
	w.Helper()
	path, err := process.Find("haproxy", "haproxy")
	if err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{"haproxy.cfg", "sluice-spoe.conf", "sluice.lua"} {
		w.file("../haproxy-spoe/"+name, nil)
	}
	w.begin(w.gateway, path, "-db", "-f", "haproxy.cfg")
}

// service records the requests that reach it.
type service struct {
	server *httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
	broken atomic.Bool  // it fails requests
	failed atomic.Int64 // which are counted
}

// newService starts a service.
func newService(t *testing.T) *service {
	s := &service{}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.broken.Load() {
			s.failed.Add(1)
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
		s.mu.Unlock()
		_, _ = io.WriteString(w, "served") // the gateway may be gone
	}))
	t.Cleanup(s.server.Close)
	return s
}

// take returns the requests that came since the last call, and their bodies.
func (s *service) take() ([]*http.Request, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, bodies := s.got, s.bodies
	s.got, s.bodies = nil, nil
	return got, bodies
}

// answer is what a client gets.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request of a client, written with \n for line ends, over a connection of its own. The Host is added,
// unless the text has one.
func (w *world) send(client, text string) answer {
	w.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	if !strings.Contains(strings.ToLower(head), "\nhost:") {
		head += "\nHost: www.example.com"
	}
	head += "\nConnection: close\n\n"
	ctx, cancel := context.WithTimeout(w.Context(), process.Patience)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	c, err := d.DialContext(ctx, "tcp", w.gateway)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		w.Fatal(err)
	}
	if _, err := io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n")+body); err != nil {
		return answer{} // a gateway may close the connection of a malformed request
	}
	method, _, _ := strings.Cut(head, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return answer{}
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		w.Errorf("the answer to %q ends early: %v", text, err)
	}
	return answer{res.StatusCode, res.Header, string(content)}
}

// everywhere runs a test with each gateway.
func everywhere(t *testing.T, test func(w *world, g gateway), except ...string) {
	t.Helper()
	for _, g := range gateways {
		if slices.Contains(except, g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, g, process.Patient), g)
		})
	}
}
