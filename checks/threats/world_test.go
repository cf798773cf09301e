package threats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// overH2 is the end of the names of services behind a sluice that speaks HTTP/2 only.
const overH2 = " over HTTP/2"

// world is several services, a sluice in front of each, and what reached the services.
type world struct {
	folder   string
	services []*protected
	records  *records
	tags     atomic.Int64
	begun    time.Time // the attacks of a test
	// cert and key are the files of a certificate.
	cert, key string
}

// protected is a service behind a sluice.
type protected struct {
	name    string
	server  string // the name in its records
	addr    string // of the service
	front   string // of the sluice
	h2      bool   // the sluice speaks HTTP/2 only
	sluice  *process.Sluice
	program *process.Process // nil for the service in this process
}

// attack sends bytes through the sluice.
func (s *protected) attack(request []byte) (string, error) {
	if s.h2 {
		return exchangeH2(s.front, request)
	}
	return exchange(s.front, request)
}

// direct sends bytes to the service.
func (s *protected) direct(request []byte) (string, error) { return exchange(s.addr, request) }

// theWorld starts the world when the first test needs it. TestMain ends it.
var theWorld = sync.OnceValues(newWorld)

// worldFor returns the world, and fails the test if there is none.
func worldFor(t *testing.T) *world {
	t.Helper()
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestMain(m *testing.M) {
	status := m.Run()
	ending.Lock()
	for _, stop := range endings {
		stop()
	}
	ending.Unlock()
	os.Exit(status)
}

// endings are called when all tests have ended, in their order.
var (
	ending  sync.Mutex
	endings []func()
)

func atTheEnd(f func()) {
	ending.Lock()
	defer ending.Unlock()
	endings = append([]func(){f}, endings...)
}

func newWorld() (*world, error) {
	folder, err := os.MkdirTemp("", "threats")
	if err != nil {
		return nil, err
	}
	atTheEnd(func() { _ = os.RemoveAll(folder) }) // a folder for temporary files
	w := &world{folder: folder, records: newRecords()}
	if err := w.startServices(); err != nil {
		return nil, err
	}
	sluice, err := process.Build(folder)
	if err != nil {
		return nil, err
	}
	if w.cert, w.key, err = certificate(folder); err != nil {
		return nil, err
	}
	var starting sync.WaitGroup
	errs := make([]error, len(w.services))
	for i, s := range w.services {
		starting.Go(func() { errs[i] = w.protect(sluice, s) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := w.exhaust(); err != nil {
		return nil, err
	}
	return w, nil
}

// startServices starts all services, and waits until they answer.
func (w *world) startServices() error {
	ports, err := redistest.FreePorts(7)
	if err != nil {
		return err
	}
	nginx, err := process.Find("nginx", "nginx")
	if err != nil {
		return err
	}
	haproxy, err := process.Find("haproxy", "haproxy")
	if err != nil {
		return err
	}
	node, err := process.Find("nodejs", "node", "nodejs")
	if err != nil {
		return err
	}
	flask, err := process.Python("flask", "python3-flask")
	if err != nil {
		return err
	}
	nginxConfig, err := fill(w.folder, "nginx.conf", "PORT", ports[0], "FOLDER", w.folder)
	if err != nil {
		return err
	}
	haproxyConfig, err := fill(w.folder, "haproxy.cfg", "PORT", ports[1])
	if err != nil {
		return err
	}
	commands := []struct {
		names, args []string
	}{
		{[]string{"nginx"}, []string{nginx, "-p", w.folder, "-e", filepath.Join(w.folder, "error.log"), "-c", nginxConfig}},
		{[]string{"haproxy"}, []string{haproxy, "-db", "-f", haproxyConfig}},
		{[]string{"node"}, []string{node, filepath.Join("testdata", "services.js"), ports[2]}},
		{[]string{"python", "flask", "wsgi", "unread"}, []string{flask, filepath.Join("testdata", "services.py"), ports[3], ports[4], ports[5], ports[6]}},
	}
	for _, c := range commands {
		p, err := process.New(exec.Command(c.args[0], c.args[1:]...), w.records.scan)
		if err != nil {
			return err
		}
		atTheEnd(p.Kill)
		for _, name := range c.names {
			w.services = append(w.services, &protected{name: name, server: name, addr: "127.0.0.1:" + ports[len(w.services)], program: p})
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := &http.Server{Handler: newMux(w.records), ReadHeaderTimeout: time.Minute}
	go func() { _ = mux.Serve(l) }()     // until it is closed
	atTheEnd(func() { _ = mux.Close() }) // the test has ended
	w.services = append(w.services, &protected{name: "go", server: "go", addr: l.Addr().String()})
	for _, s := range w.services {
		if err := w.sync(s); err != nil {
			return err
		}
	}
	for _, s := range w.services {
		if s.name == "nginx" || s.name == "node" || s.name == "flask" {
			over := *s
			over.name, over.h2 = s.name+overH2, true
			w.services = append(w.services, &over)
		}
	}
	return nil
}

// fill copies a file of testdata into a folder, with its words in capitals replaced.
func fill(folder, name string, words ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, name)
	return path, os.WriteFile(path, []byte(strings.NewReplacer(words...).Replace(string(text))), 0o600)
}

// protect starts a sluice in front of a service.
func (w *world) protect(sluice string, s *protected) error {
	config := filepath.Join(w.folder, strings.ReplaceAll(s.name, "/", "-")+".yaml")
	listen := "127.0.0.1:0"
	if s.h2 {
		listen = fmt.Sprintf("{address: '127.0.0.1:0', tls: {cert: '%s', key: '%s'}}", w.cert, w.key)
	}
	if err := os.WriteFile(config, []byte(configuration(listen, s.addr)), 0o600); err != nil {
		return err
	}
	var err error
	if s.sluice, err = process.NewSluice(exec.Command(sluice, "serve", config), 1); err != nil {
		return fmt.Errorf("before %s: %w", s.name, err)
	}
	atTheEnd(s.sluice.Kill)
	s.front = s.sluice.Address("proxy")
	return nil
}

// sync returns when the service has recorded all earlier requests: it sends a request of its own,
// and waits for its record.
func (w *world) sync(s *protected) error {
	tag := fmt.Sprintf("sync%07d", w.tags.Add(1))
	deadline := time.NewTimer(process.Patience)
	defer deadline.Stop()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	sent := false
	for {
		if !sent {
			answer, err := exchange(s.addr, []byte("GET /public/sync HTTP/1.1\r\nHost: www.example.com\r\nX-Case: "+tag+"\r\nConnection: close\r\n\r\n"))
			sent = err == nil && strings.HasPrefix(answer, "HTTP/1.")
		}
		found, more := w.records.find(func(r *record) bool { return r.Server == s.server && r.Case == tag })
		if found != nil {
			return nil
		}
		select {
		case <-more:
		case <-retry.C:
		case <-deadline.C:
			log := ""
			if s.program != nil {
				log = s.program.Log()
			}
			return fmt.Errorf("%s did not record a request: %s", s.name, log)
		}
	}
}

// settle waits until all services have recorded what they got, and returns the records.
func (w *world) settle() ([]*record, error) {
	for _, s := range w.services {
		if err := w.sync(s); err != nil {
			return nil, err
		}
	}
	all, errs := w.records.take()
	return all, errors.Join(errs...)
}

// exhaust uses up the limits of the keys that attacks aim at. Then no request with these keys
// may reach a service.
func (w *world) exhaust() error {
	if _, err := w.settle(); err != nil {
		return err
	}
	var working sync.WaitGroup
	errs := make([]error, len(w.services))
	for i, s := range w.services {
		working.Go(func() { errs[i] = w.exhaustAt(s) })
	}
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := w.settle()
	return err
}

func (w *world) exhaustAt(s *protected) error {
	for i := range protections {
		for _, m := range protections[i].requests {
			one := m.canonical()
			if !s.h2 {
				one.lines = append(one.lines, "Connection: close")
			}
			answer := ""
			for range 3 {
				var err error
				if answer, err = s.attack([]byte(one.text())); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			if !strings.Contains(answer, "429") {
				return fmt.Errorf("%s: rule %s does not deny %q: %q", s.name, protections[i].name, one.text(), answer)
			}
		}
	}
	return nil
}

// idle is how long a connection may be silent before the test leaves it.
const idle = 300 * time.Millisecond

// exchange sends bytes over a connection of its own, and returns what comes back until the
// other side closes the connection or is silent.
func exchange(addr string, request []byte) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	// The other side may answer and close the connection before it has read everything.
	_ = c.SetDeadline(time.Now().Add(process.Patience))
	_, _ = c.Write(request)
	answer := make([]byte, 0, 512)
	for len(answer) < 1<<20 {
		_ = c.SetReadDeadline(time.Now().Add(idle))
		if len(answer) == cap(answer) {
			answer = append(answer, 0)[:len(answer)]
		}
		n, err := c.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		if err != nil {
			break
		}
	}
	return string(answer), nil
}

// tagged replaces the words of a template: each freshWord by a value that was never sent
// before, and all tagWords by one value.
func (w *world) tagged(text string) string {
	for strings.Contains(text, freshWord) {
		text = strings.Replace(text, freshWord, fmt.Sprintf("f%07d", w.tags.Add(1)), 1)
	}
	return text
}

const (
	freshWord = "FRESH000"
	tagWord   = "CASE0000"
)
