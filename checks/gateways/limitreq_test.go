package gateways

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
)

// limitReqFormat is the log of nginx that a replay compares with, and limitReqWritten is what nginx writes. limit_req decides by
// a clock of the system that ticks every few milliseconds, and only $connection_time reads that clock.
const (
	limitReqFormat  = `$remote_addr $msec "$request" $status $connection $limit_req_status`
	limitReqWritten = `$remote_addr $connection_time "$request" $status $connection $limit_req_status`
)

// limitReq is nginx with a limit that is tried out.
const limitReq = `events {}
http {
    log_format replayed '%[3]s';
    access_log %[1]s/access.log replayed;
    client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
    limit_req_zone $arg_k zone=z:1m rate=20r/s;
    server {
        listen %[2]s;
        root %[1]s/www;
        limit_req zone=z burst=5 delay=2;
        limit_req_dry_run on;
    }
}
`

// TestLimitReqAgreesLineByLine replays the log of nginx with limit_req_dry_run. For each line, a leaky bucket of the same numbers
// passes, delays or refuses the request as limit_req would have done.
func TestLimitReqAgreesLineByLine(t *testing.T) {
	t.Parallel()
	nginx, err := process.Find("nginx", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	for name, text := range map[string]string{
		"nginx.conf":     fmt.Sprintf(limitReq, dir, address, limitReqWritten),
		"sluice.yaml":    "version: 1\nrules:\n  - name: z\n    key: \"query:k\"\n    limit: {algorithm: leaky_bucket, rate: 20/s, queue: 5, undelayed: 2}\n",
		"www/index.html": "served",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(nginx, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr", "-g", "daemon off; master_process off; pid "+filepath.Join(dir, "pid")+";") //nolint:noctx // it ends with the test
	server := process.Start(t, c)
	if err := server.Accepts(address); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}} // other tests close idle connections of the default one
	defer client.CloseIdleConnections()
	get := func(key int) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/?k=%d", address, key), http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	random := rand.New(rand.NewPCG(27, 8))
	for began := time.Now(); time.Since(began) < 6*time.Second; {
		key := 1 + random.IntN(3)
		for range 1 + random.IntN(10)*random.IntN(2) {
			if err := get(key); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Duration(random.ExpFloat64() * float64(25*time.Millisecond)))
	}
	if err := server.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-server.Ended()
	// All requests use one connection, so the times have one beginning.
	log, err := os.ReadFile(filepath.Join(dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	var dated strings.Builder
	connection := ""
	for line := range strings.Lines(string(log)) {
		fields := strings.Fields(line)
		seconds, millis, _ := strings.Cut(fields[1], ".")
		since, err := strconv.Atoi(seconds)
		if err != nil {
			t.Fatalf("a line has no time: %s", line)
		}
		if on := fields[len(fields)-2]; connection == "" {
			connection = on
		} else if on != connection {
			t.Fatalf("a request came on connection %s, want all on %s", on, connection)
		}
		dated.WriteString(strings.Replace(line, fields[1], fmt.Sprintf("%d.%s", 1_800_000_000+since, millis), 1))
	}
	if err := os.WriteFile(filepath.Join(dir, "access.log"), []byte(dated.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Check struct {
			Compared, Agreed, Within int
			Examples                 []map[string]any
		}
		Requests struct{ Denied, Delayed int }
	}
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, process.Program(), "replay", filepath.Join(dir, "access.log"), "-c", filepath.Join(dir, "sluice.yaml"),
		"--format", "nginx:"+limitReqFormat, "--check", "--json", "-").CombinedOutput()
	if end := strings.LastIndexByte(string(out), '}'); end < 0 || json.Unmarshal(out[:end+1], &document) != nil {
		t.Fatalf("the replay fails: %v: %s", err, out)
	}
	k := document.Check
	t.Logf("%d lines: %d agree, %d of them within the resolution", k.Compared, k.Agreed, k.Within)
	if k.Agreed != k.Compared || k.Compared < 300 || document.Requests.Denied < 20 || document.Requests.Delayed < 20 {
		t.Errorf("%d of %d lines agree, %d are refused and %d delayed; they differ as in %v", k.Agreed, k.Compared, document.Requests.Denied, document.Requests.Delayed, k.Examples)
	}
	if k.Within > 0 {
		t.Errorf("%d of %d lines agree only at another time, want all at their own", k.Within, k.Compared)
	}
}
