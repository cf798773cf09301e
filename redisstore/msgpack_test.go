package redisstore

import (
	"math"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// FuzzMsgpack: what is written is read again, and nothing that a server sends makes
// the reader panic.
func FuzzMsgpack(f *testing.F) {
	f.Add(int64(0), "", "\x93\x01\xa1x\xcf")
	f.Add(int64(math.MaxInt64), strings.Repeat("x", 300), "\xdc\xff\xff")
	f.Add(int64(math.MinInt64), strings.Repeat("x", 32), "\xdb\xff\xff\xff\xff")
	f.Add(int64(-33), "\x00", "\xd9\x05abc")
	f.Add(int64(1)<<33, "y", "\xc0")
	f.Fuzz(func(t *testing.T, n int64, text, garbage string) {
		in := reader{rest: string(appendText(appendInt(nil, n), text))}
		if got := in.int(); got != n {
			t.Errorf("%d is read as %d", n, got)
		}
		if got := in.text(); got != text || in.err != nil || in.more() {
			t.Errorf("%q is read as %q, %v", text, got, in.err)
		}
		in = reader{rest: garbage}
		for in.more() {
			if in.isList() {
				in.list()
				continue
			}
			before := in.rest
			if in.int(); in.err != nil {
				in = reader{rest: before}
				in.text()
			}
		}
	})
}

// FuzzReply: nothing that a server sends as a reply or as a view makes the store
// panic, or admits without the server's verdict.
func FuzzReply(f *testing.F) {
	f.Add("\x01\x01")
	f.Add("\x01\x03\xc0\xc0")
	f.Add("\xcf\x00\x06\x40\x00\x00\x00\x00\x00\x01\xa0")
	f.Add("\x01\x01\x91\xa0")
	f.Add("\x01\x01\x92\x93\xa0\x01\x01\xa0")
	f.Add("")
	f.Fuzz(func(t *testing.T, reply string) {
		for _, l := range samples() {
			s := store(t, Options{})
			s.client.(*fakeClient).reply = reply
			r := request(l)
			d, err := s.Decide(t.Context(), r)
			if err != nil && d.Allowed {
				t.Fatalf("%v: %+v with %v", l, d, err)
			}
			out := make([]sluice.Decision, 2)
			_ = s.DecideAll(t.Context(), []sluice.Request{r, r}, out)
			_ = s.Cancel(t.Context(), r.Charge(&d))
			known := s.limits.get(l)
			_, _ = known.decision(reply, &algo.Request{Now: 1_700_000_000_000_000, Cost: 1, Member: 1}, false)
		}
	})
}
