package rls

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// world is a service over a store in memory with its own clock, which begins ten seconds into a minute.
type world struct {
	*Service
	t       testing.TB
	decider *policy.Decider
	now     time.Time
	seen    int // verdicts
}

func newWorld(tb testing.TB, rules ...policy.Rule) *world {
	tb.Helper()
	w := &world{t: tb, now: time.Unix(1_800_000_010, 0)}
	store, err := memory.New(memory.Options{Clock: func() int64 { return w.now.UnixMicro() }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		tb.Fatal(err)
	}
	if w.decider, err = policy.NewDecider(p, store); err != nil {
		tb.Fatal(err)
	}
	w.serve(Options{})
	return w
}

// serve makes the service again, with options.
func (w *world) serve(o Options) {
	w.t.Helper()
	if o.Decider == nil {
		o.Decider = w.decider
	}
	o.OnVerdict = func(*policy.Verdict, time.Duration) { w.seen++ }
	var err error
	if w.Service, err = New(o); err != nil {
		w.t.Fatal(err)
	}
}

// quiet returns headers that answers of tests leave out.
func quiet(tb testing.TB) *httplimit.Headers {
	tb.Helper()
	h, err := httplimit.NewHeaders(httplimit.HeaderOptions{Profile: httplimit.ProfileNone})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// call sends a request through the wire form of both messages, and returns the answer as JSON without its metadata, or
// the error.
func (w *world) call(request string) string {
	w.t.Helper()
	text, err := w.answer(request)
	if err != nil {
		return err.Error()
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		w.t.Fatal(err)
	}
	delete(fields, "dynamicMetadata")
	text, err = json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *world) answer(request string) ([]byte, error) {
	q := dynamicpb.NewMessage(w.schema.request)
	if err := protojson.Unmarshal([]byte(request), q); err != nil {
		w.t.Fatal(err)
	}
	b, err := proto.Marshal(q)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := shouldRateLimit(w.Service, w.t.Context(), func(m any) error { return m.(*call).UnmarshalWire(b) }, nil)
	if err != nil {
		return nil, err
	}
	c := answer.(*call)
	b = c.AppendWire(make([]byte, 0, c.SizeWire()))
	return []byte(w.text(b)), nil
}

// text returns an answer in bytes as JSON.
func (w *world) text(b []byte) string {
	w.t.Helper()
	v := dynamicpb.NewMessage(w.schema.response)
	if err := proto.Unmarshal(b, v); err != nil {
		w.t.Fatal(err)
	}
	text, err := protojson.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		w.t.Fatal(err)
	}
	return compact.String()
}

// rule returns a rule of the domain "d" for descriptors with one key.
func rule(name, key string, limits ...sluice.Algorithm) policy.Rule {
	r := policy.Rule{Name: name, Match: policy.Match{Descriptor: &descriptors.Pattern{Domain: "d", Entries: []descriptors.PatternEntry{{Key: key}}}}}
	for _, a := range limits {
		r.Limits = append(r.Limits, sluice.MustLimit("", a))
	}
	return r
}

// listed is a rule with lists for some values of its key.
func listed() policy.Rule {
	r := rule("listed", "listed", window(5, time.Minute))
	r.AllowKeys, r.DenyKeys = [][]string{{"good"}}, [][]string{{"bad"}}
	return r
}

// window admits n units in each window of a period.
func window(n int64, period time.Duration) sluice.Algorithm {
	return sluice.FixedWindow{Rate: sluice.Per(n, period)}
}

// descriptor is a descriptor in JSON, with further fields.
func descriptor(key, value, more string) string {
	return `{"entries":[{"key":"` + key + `","value":"` + value + `"}]` + more + `}`
}

// about is a request in JSON.
func about(descriptors string, more string) string {
	return `{"domain":"d","descriptors":[` + descriptors + `]` + more + `}`
}

// generated returns the descriptor of the generated code.
func generated(entries ...string) *commonpb.RateLimitDescriptor {
	d := &commonpb.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &commonpb.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}
