package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/ratetest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

const megabyte = 1_000_000

// rates are the rates at which tests forward bodies.
var rates = []int64{1 * megabyte, 100 * megabyte}

// paced starts a proxy behind a middleware with one rule: a bandwidth for each X-Key.
func paced(t *testing.T, target string, b policy.Bandwidth, change func(*Options)) *httptest.Server {
	t.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "paced", Key: []policy.Part{policy.Header("X-Key")}, Bandwidth: &b,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: rules, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := handler(t, target, TransportOptions{}, change)
	s := httptest.NewServer(Bounded(m.Wrap(p), p.o.Stall))
	t.Cleanup(s.Close)
	return s
}

// endless is a reader of zeros without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// rateOf reads for a while and returns the bytes per second.
func rateOf(r io.Reader) (float64, error) {
	p := make([]byte, 256<<10)
	return ratetest.Measure(func() (int, error) { return r.Read(p) })
}

// TestAnswersAreForwardedAtTheRate forwards responses at the rate of a rule.
func TestAnswersAreForwardedAtTheRate(t *testing.T) {
	t.Parallel()
	if noDirect {
		return // the path does not set the pace
	}
	up := service(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) })
	for _, rate := range rates {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			s := paced(t, up.URL, policy.Bandwidth{Down: sluice.PerSecond(rate)}, nil)
			ratetest.Within(t, float64(rate), func(try int) float64 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Key", fmt.Sprint(try))
				res, err := client(t).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				got, err := rateOf(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return got
			})
		})
	}
}

// TestBodiesAreForwardedAtTheRate forwards request bodies at the rate of a rule.
func TestBodiesAreForwardedAtTheRate(t *testing.T) {
	t.Parallel()
	if noDirect {
		return // the path does not set the pace
	}
	type seen struct {
		rate float64
		err  error
	}
	for _, rate := range rates {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			arrived := make(chan seen, 1)
			up := service(t, func(_ http.ResponseWriter, r *http.Request) {
				rate, err := rateOf(r.Body)
				arrived <- seen{rate, err}
				panic(http.ErrAbortHandler) // the client would send for ever
			})
			s := paced(t, up.URL, policy.Bandwidth{Up: sluice.PerSecond(rate)}, nil)
			ratetest.Within(t, float64(rate), func(try int) float64 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, endless{})
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Key", fmt.Sprint(try))
				if res, err := client(t).Do(r); err == nil {
					res.Body.Close()
				}
				got := <-arrived
				if got.err != nil {
					t.Fatalf("the service could not read the body: %v", got.err)
				}
				return got.rate
			})
		})
	}
}

// TestBandwidthIsNoStall forwards a response and a request body. Pacing each piece takes longer than
// a client may stall.
func TestBandwidthIsNoStall(t *testing.T) {
	const rate, size, stall = 100_000, 64_000, 200 * time.Millisecond // 600 ms and the burst
	up := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})
	for name, b := range map[string]policy.Bandwidth{
		"down": {Down: sluice.PerSecond(rate)},
		"up":   {Up: sluice.PerSecond(rate)},
	} {
		t.Run(name, func(t *testing.T) {
			s := paced(t, up.URL, b, func(o *Options) { o.Stall = stall })
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, io.LimitReader(endless{}, size))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Key", "a")
			began := time.Now()
			res, body := do(t, client(t), r)
			if res.StatusCode != http.StatusOK || len(body) != size {
				t.Errorf("status %d, %d bytes", res.StatusCode, len(body))
			}
			if took := time.Since(began); took < 600*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		})
	}
}
