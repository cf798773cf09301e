package threats

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// traefikEnv is the path of Traefik: see tools/traefik.sh. With it, Traefik is the gateway before each service.
const traefikEnv = "SLUICE_TRAEFIK"

// behind is a service behind a gateway.
type behind struct {
	service, gateway string
	change           func(text string) string // of the gateway's file
	// socket is the gateway's spelling of a Unix socket, without its path; empty for TCP.
	socket string
}

// behindGateways are services behind gateways that let sluice decide, by the files of the examples. Each has
// another service, so that records without a tag are known by their service.
var behindGateways = []behind{
	{"node", "nginx.conf", nil, "unix:"},
	// nginx drops such headers by default, and some operators let them pass.
	{"flask", "nginx.conf", func(text string) string {
		return strings.Replace(text, "http {\n", "http {\n    underscores_in_headers on;\n    ignore_invalid_headers off;\n    merge_slashes off;\n", 1)
	}, "unix:"},
	{"wsgi", "nginx-lua.conf", nil, ""},
	{"go", "Caddyfile", nil, "unix/"},
	// A busy machine answers later than the file lets HAProxy wait.
	{"python", "haproxy.cfg", strings.NewReplacer("timeout processing 100ms", "timeout processing 10s", "timeout hello 100ms", "timeout hello 5s", "timeout connect 100ms", "timeout connect 5s").Replace, "unix@"},
}

// theGateways starts the gateways when a test needs them.
var theGateways = sync.OnceValues(func() ([]*protected, error) {
	w, err := theWorld()
	if err != nil {
		return nil, err
	}
	fronts := make([]*protected, len(behindGateways))
	errs := make([]error, len(behindGateways))
	var starting sync.WaitGroup
	for i, g := range behindGateways {
		for _, s := range w.services {
			if s.name == g.service {
				over := *s
				fronts[i] = &over
			}
		}
		if os.Getenv(traefikEnv) != "" {
			g = behind{service: g.service, gateway: "traefik.yml"}
		}
		starting.Go(func() { errs[i] = w.beginGateway(i, g, fronts[i]) })
	}
	starting.Wait()
	return fronts, errors.Join(errs...)
})

// beginGateway starts a gateway with a sluice before a service, and uses up the limits there.
func (w *world) beginGateway(number int, g behind, s *protected) error {
	s.name += " behind " + g.gateway
	dir := filepath.Join(w.folder, fmt.Sprintf("gateway%d", number))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	ports, err := redistest.FreePorts(3)
	if err != nil {
		return err
	}
	_, service, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	address, trusted := "127.0.0.1:"+ports[1], "127.0.0.1"
	decides := address
	if g.socket != "" {
		path := filepath.Join(dir, "s")
		address, trusted, decides = "unix:"+path, "unix", g.socket+path
	}
	replace := strings.NewReplacer("unix:/run/sluice/auth.sock", decides, "127.0.0.1:8082", decides, "127.0.0.1:8084", decides, "8000", ports[0], "8082", ports[1], "8084", ports[1], "8083", ports[2], "3000", service,
		"filename: traefik.yml", "filename: "+filepath.Join(dir, "traefik.yml")+"\nglobal: {checkNewVersion: false}")
	folder, listener := "gateways", "auth"
	if g.gateway == "haproxy.cfg" {
		folder, listener = "haproxy-spoe", "spoe"
	}
	put := func(name, text string) (string, error) {
		path := filepath.Join(dir, name)
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	copied := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", folder, name))
		if err != nil {
			return "", err
		}
		changed := process.Patient(replace.Replace(string(text)))
		if g.change != nil {
			changed = g.change(changed)
		}
		own := "    access_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			own += fmt.Sprintf("    %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
		}
		return put(name, strings.Replace(changed, "\nhttp {\n", "\nhttp {\n"+own, 1))
	}
	config, err := put("sluice.yaml", strings.Replace(configuration("off", s.addr),
		"admin: off}\nupstream: 'http://"+s.addr+"'\n", "admin: off, "+listener+": '"+address+"'}\ntrusted_proxies: "+trusted+"\n", 1))
	if err != nil {
		return err
	}
	file, err := copied(g.gateway)
	if err != nil {
		return err
	}
	command := []string{"nginx", "-p", dir, "-c", file, "-e", "stderr", "-g", "daemon off; master_process off; error_log stderr crit; pid " + filepath.Join(dir, "nginx.pid") + ";"}
	switch g.gateway {
	case "nginx-lua.conf":
		if _, err := copied("sluice.lua"); err != nil {
			return err
		}
	case "haproxy.cfg":
		for _, name := range []string{"sluice-spoe.conf", "sluice.lua"} {
			if _, err := copied(name); err != nil {
				return err
			}
		}
		command = []string{"haproxy", "-db", "-C", dir, "-f", file}
	case "Caddyfile":
		command = []string{"caddy", "run", "--adapter", "caddyfile", "--config", file}
	case "traefik.yml":
		static, err := copied("traefik-static.yml")
		if err != nil {
			return err
		}
		command = []string{os.Getenv(traefikEnv), "--configFile=" + static}
	}
	if command[0], err = process.Find(command[0], command[0]); err != nil {
		return err
	}
	if s.sluice, err = process.NewSluice(exec.Command(filepath.Join(w.folder, "sluice"), "serve", config), 1); err != nil {
		return err
	}
	atTheEnd(s.sluice.Kill)
	p, err := process.New(exec.Command(command[0], command[1:]...), nil)
	if err != nil {
		return err
	}
	atTheEnd(p.Kill)
	s.front = "127.0.0.1:" + ports[0]
	if err := p.Accepts(s.front); err != nil {
		return err
	}
	// Traefik answers 404 until it has read its file.
	if err := p.Until(func() error {
		answer, err := s.attack([]byte(simple("/public/ready", "Connection: close")))
		if err == nil && !strings.HasPrefix(answer, "HTTP/1.1 200") {
			err = fmt.Errorf("does not pass requests on: %q", answer)
		}
		return err
	}); err != nil {
		return err
	}
	return w.exhaustAt(s)
}

// TestNothingGetsPastGateways is TestNothingGetsPast for gateways that let sluice decide, and pass requests on
// themselves. Headers that name the client are up to the gateway.
func TestNothingGetsPastGateways(t *testing.T) {
	w := worldFor(t)
	fronts, err := theGateways()
	if err != nil {
		t.Fatal(err)
	}
	seed := seedOf(t)
	total := redistest.Times(t, attacks/2)
	if _, err := w.settle(); err != nil {
		t.Fatal(err)
	}
	served := 0
	seen := map[string]int{}
	w.begun = time.Now()
	for first := 0; first < total && !t.Failed(); first += batch {
		sent := w.run(t, fronts, seed, first, min(batch, total-first), (*protected).attack)
		all, err := w.settle()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			r.Forwarding = nil
			r.Ran = slices.DeleteFunc(r.Ran, func(name string) bool { return name == "gone" })
		}
		served += len(all)
		w.judge(t, sent, all, seen)
		w.count(t, sent, all)
	}
	for promise, times := range seen {
		t.Errorf("%d requests got past %s", times, promise)
	}
	t.Logf("%d attacks, %d requests reached a service", total*len(fronts), served)
	if served < total/2 {
		t.Errorf("only %d requests reached a service", served)
	}
}
