package httplimit_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// However a body comes and is read, the reader behind the rules gets the bytes that came.
func TestReadAheadLaw(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range soak.Times(t, 600) {
		most := 1 + rng.Int64N(300)
		m := startDecider(t, policy.Cost{Model: &policy.ModelCost{Body: most}})
		body := []byte(`{"max_tokens":5,"x":"` + strings.Repeat("x", rng.IntN(400)) + `"}`)
		r := httptest.NewRequest(http.MethodPost, chat, &pieces{rng: rng, left: body, late: rng.IntN(2) == 0})
		r.ContentLength = int64(len(body))
		if rng.IntN(3) == 0 {
			r.ContentLength = -1
		}
		v := m.Decide(r)
		if refused := r.ContentLength < 0 && int64(len(body)) > most; v.Allowed() == refused {
			t.Fatalf("request %d with %d of at most %d bytes is allowed: %v", i, len(body), most, v.Allowed())
		}
		var got []byte
		for {
			piece := make([]byte, 1+rng.IntN(100))
			n, err := r.Body.Read(piece)
			got = append(got, piece[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("request %d: the body ends with %v", i, err)
			}
		}
		if !bytes.Equal(got, body) {
			t.Fatalf("request %d: %d bytes came, and %d are read", i, len(body), len(got))
		}
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("request %d: after its end, the body has %d bytes, %v", i, n, err)
		}
	}
}

// pieces is a body that comes in pieces, and whose end comes with the last one or late.
type pieces struct {
	rng  *rand.Rand
	left []byte
	late bool
}

func (p *pieces) Read(to []byte) (int, error) {
	n := min(len(p.left), len(to), p.rng.IntN(90))
	copy(to, p.left[:n])
	if p.left = p.left[n:]; len(p.left) == 0 && (n == 0 || !p.late) {
		return n, io.EOF
	}
	return n, nil
}

// startDecider returns a decider with one rule of models.
func startDecider(t *testing.T, cost policy.Cost) *httplimit.Decider {
	t.Helper()
	cost.Source = policy.CostModel
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "tokens", Key: []policy.Part{policy.Global()}, Cost: cost,
		Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(budget)})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return mustDecider(t, &models{policy: p, store: store})
}
