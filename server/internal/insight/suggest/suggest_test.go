package suggest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
	"github.com/sluicehq/sluice/server/internal/insight/replay"
)

const format = `nginx:$msec $remote_addr "$request" $status`

// logOfDays writes a log of ten days. Clients come in bursts of their own sizes.
func logOfDays(t *testing.T, clients int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(27, 6))
	var b strings.Builder
	at := float64(time.Date(2026, 11, 17, 8, 0, 0, 0, time.UTC).Unix())
	for range 3000 {
		at += random.ExpFloat64() * 290
		client := random.IntN(clients)
		for i := range 1 + random.IntN(1+client%17) {
			fmt.Fprintf(&b, "%.6f 10.0.%d.%d \"GET / HTTP/1.1\" 200\n", at+float64(i)/10, client/256, client%256)
		}
	}
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// ruled returns options with one rule for each address.
func ruled(file string, a sluice.Algorithm) Options {
	o := Options{Per: time.Minute, Share: 0.99, Headroom: 1}
	o.Policy = &replay.Policy{Name: "p", IPv6Prefix: 64, Options: policy.Options{Rules: []policy.Rule{{
		Name: "a", Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{sluice.MustLimit("", a)},
	}}}}
	o.Logs = logs.Options{Files: []string{file}, Format: format}
	return o
}

// A suggestion limits no more of the clients it was fitted to than the share leaves, and its figures are the figures of a
// replay of the rest.
func TestSuggestionsHold(t *testing.T) {
	file := logOfDays(t, 700)
	o := ruled(file, sluice.TokenBucket{Rate: sluice.PerMinute(1), Burst: 3})
	o.Named = true
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	rule := r.Rules[0]
	if rule.Refused != "" || r.Split.Format("15:04") != "00:00" || len(rule.Curve) < 3 || !strings.Contains(rule.Bucket.YAML, "token_bucket") {
		t.Fatalf("%+v; want a suggestion, and a split between days", r)
	}
	for name, c := range map[string]struct {
		a sluice.Algorithm
		s *Suggestion
	}{
		"bucket": {sluice.TokenBucket{Rate: sluice.PerMinute(rule.Bucket.Count), Burst: rule.Bucket.Burst}, rule.Bucket},
		"window": {sluice.FixedWindow{Rate: sluice.PerMinute(rule.Window.Count)}, rule.Window},
		"now":    {sluice.TokenBucket{Rate: sluice.PerMinute(1), Burst: 3}, rule.Now},
	} {
		before, after := ruled(file, c.a), ruled(file, c.a)
		before.Logs.Until, after.Logs.Since = r.Split, r.Split
		before.Names, after.Names = func(s string) string { return s }, func(s string) string { return s }
		b, err := replay.Run(t.Context(), before.Options)
		if err != nil {
			t.Fatal(err)
		}
		if most := float64(b.Clients.Total) * 0.01; name != "now" && float64(b.Clients.Limited) > most {
			t.Errorf("%s: %d of %d clients are limited, more than the share leaves", name, b.Clients.Limited, b.Clients.Total)
		}
		a, err := replay.Run(t.Context(), after.Options)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.s.Measured, (Measured{a.Requests.Total, a.Requests.Limited, a.Clients.Total, a.Clients.Limited}); got != want {
			t.Errorf("%s: measured are %+v, and a replay has %+v", name, got, want)
		}
	}
	if rule.Now.Measured.LimitedKeys == 0 {
		t.Error("the limits of the file limit nobody, so the test learns nothing")
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "the curve bends here") {
		t.Errorf("%v; the text is\n%s", err, text.String())
	}
}

// A log on the standard input, also a compressed one, gets the suggestions of its file.
func TestStandardInput(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := ruled(logOfDays(t, 700), sluice.TokenBucket{Rate: sluice.PerMinute(1), Burst: 3})
	text, err := os.ReadFile(o.Logs.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatalf("the log is not compressed: %v", err)
	}
	var want, got strings.Builder
	for i, stdin := range []io.Reader{nil, bytes.NewReader(text), &packed} {
		if got.Reset(); stdin != nil {
			o.Logs.Files, o.Logs.Stdin = []string{"-"}, stdin
		}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&got).Encode(r); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want.WriteString(got.String())
		}
		if got.String() != want.String() || !strings.Contains(want.String(), `"token_bucket"`) {
			t.Errorf("the standard input gives\n%s\nwant\n%s", &got, &want)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v are left in the folder for temporary files (%v), want nothing", left, err)
	}
}

// Thin data gets a refusal that has what is missing.
func TestThinData(t *testing.T) {
	o := ruled(logOfDays(t, 100), sluice.FixedWindow{Rate: sluice.PerDay(1)})
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if rule := r.Rules[0]; rule.Bucket != nil || !strings.Contains(rule.Refused, "299 are necessary") || !strings.Contains(rule.Refused, "such as 95%") {
		t.Errorf("the refusal is %q, and the suggestion %+v", rule.Refused, rule.Bucket)
	}
	for want, change := range map[string]func(*Options){
		"the period of rates is 0s": func(o *Options) { o.Per = 0 }, "the share of clients is 1": func(o *Options) { o.Share = 1 },
		"the headroom is 0.5": func(o *Options) { o.Headroom = 0.5 },
		"the standard input is read several times, and cannot be kept in a file: no input": func(o *Options) {
			o.Logs.Files, o.Logs.Stdin = []string{"-"}, iotest.ErrReader(errors.New("no input"))
		},
	} {
		bad := o
		change(&bad)
		if _, err := Run(t.Context(), bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}
