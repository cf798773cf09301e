package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

func TestMain(m *testing.M) { process.Main(m) }

// inMemory and overRedis are configurations that have all metrics together. %s are the folder of files, and the address of
// a webhook or of Redis.
const (
	inMemory = `version: 1
listen:
  proxy: {address: '127.0.0.1:0', tls: {cert: %[1]s/server.crt, key: %[1]s/server.key}}
  api: '127.0.0.1:0'
  grpc: '127.0.0.1:0'
  admin: '127.0.0.1:0'
upstream: echo
store: {memory: {file: %[1]s/states}}
access_log: {file: %[1]s/access.log}
audit: {file: %[1]s/audit.log}
scale_out: {webhook: {url: '%[2]s', secret_file: %[1]s/secret}}
rules:
  - name: per-client
    match: {path: /memory}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 100/m, burst: 2}
    candidate: {algorithm: token_bucket, rate: 50/m, burst: 1}
  - name: tokens
    match: {path: /v1/**, method: POST}
    key: global
    limit: {algorithm: fixed_window, rate: 10000000/d}
    cost: {source: model}
`
	overRedis = `version: 1
listen: {proxy: off, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
store: {redis: {addresses: ['%[2]s'], local: {share: 1/2}}}
on_store_error: local
rules:
  - name: shared
    match: {path: /redis}
    key: client_ip
    limit: {algorithm: token_bucket, rate: 1000/s, burst: 1000}
    hybrid: true
`
)

// world has two servers, and the folder of their files.
type world struct {
	servers map[string]*process.Sluice
	dir     string
}

// start starts a server in memory and a server over Redis, and gives them some traffic.
func start(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	trusted, err := redistest.WriteCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	hook := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(hook.Close)
	redis := redistest.Start(t)
	w := &world{servers: map[string]*process.Sluice{}, dir: dir}
	for name, x := range map[string]struct {
		text, with string
		listeners  int
	}{"memory": {inMemory, hook.URL, 4}, "redis": {overRedis, redis.Addr(), 2}} {
		write(t, filepath.Join(dir, "secret"), "whsec_bm9ib2R5IGNhbiBndWVzcyB0aGlzIHNlY3JldA==")
		file := filepath.Join(dir, name+".yaml")
		write(t, file, fmt.Sprintf(x.text, dir, x.with))
		w.servers[name] = process.StartSluice(t, exec.Command(process.Program(), "serve", file, "--last-good", filepath.Join(dir, name+".last-good")), x.listeners) //nolint:noctx // it ends with the test
		for range 5 {
			body := fmt.Sprintf(`{"path":"/%s","client_ip":"192.0.2.1"}`, name)
			answer, err := http.Post(w.servers[name].URLs["api"]+"/v1/check", "application/json", strings.NewReader(body)) //nolint:noctx // it answers at once
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
	}
	// The cost of a language model, whose answer is not one.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusted}}
	t.Cleanup(client.CloseIdleConnections)
	answer, err := client.Post(w.servers["memory"].URLs["proxy"]+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`)) //nolint:noctx // it answers at once
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	process.Eventually(t, "the end of the model's answer", func() bool {
		return strings.Contains(process.Get(t, w.servers["memory"].URLs["admin"]+"/metrics"), "\nsluice_model_answers_total{")
	})
	return w
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// metric is a metric of a scrape.
type metric struct {
	kind, help string
	labels     map[string]bool
}

// scrape returns the metrics of all servers.
func (w *world) scrape(t *testing.T) map[string]*metric {
	t.Helper()
	all := map[string]*metric{}
	of := func(name string) *metric {
		if all[name] == nil {
			all[name] = &metric{labels: map[string]bool{}}
		}
		return all[name]
	}
	for _, s := range w.servers {
		for line := range strings.Lines(process.Get(t, s.URLs["admin"]+"/metrics")) {
			line = strings.TrimSpace(line)
			switch words := strings.SplitN(line, " ", 4); {
			case strings.HasPrefix(line, "# HELP "):
				of(words[2]).help = words[3]
			case strings.HasPrefix(line, "# TYPE "):
				of(words[2]).kind = words[3]
			case line != "":
				series, labels, _ := strings.Cut(line[:strings.LastIndexByte(line, ' ')], "{")
				for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
					m := all[strings.TrimSuffix(series, suffix)]
					if m == nil {
						continue
					}
					for _, label := range strings.Split(strings.TrimSuffix(labels, "}"), ",") {
						if name, _, ok := strings.Cut(label, "="); ok && name != "le" {
							m.labels[name] = true
						}
					}
					break
				}
			}
		}
	}
	return all
}

// prometheus is a running Prometheus with the alerts, which scrapes the servers of a world.
type prometheus struct{ url string }

func (w *world) prometheus(t *testing.T, rules string) *prometheus {
	t.Helper()
	program, err := process.Find("prometheus", "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := redistest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{w.servers["memory"].Address("admin"), w.servers["redis"].Address("admin")}
	file := filepath.Join(w.dir, "prometheus.yml")
	write(t, file, fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\n"+
		"scrape_configs: [{job_name: sluice, static_configs: [{targets: ['%s']}]}]\n", rules, strings.Join(targets, "', '")))
	at := "127.0.0.1:" + ports[0]
	process.Start(t, exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"), "--web.listen-address="+at)) //nolint:noctx // it ends with the test
	return &prometheus{"http://" + at}
}

// call calls the API of Prometheus, and reads its data.
func (p *prometheus) call(ctx context.Context, path string, query url.Values, data any) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var result struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil {
		return err
	}
	if result.Status != "success" {
		return fmt.Errorf("%s", result.Error)
	}
	return json.Unmarshal(result.Data, data)
}
