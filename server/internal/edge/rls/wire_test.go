package rls

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestBytesOfCallsStayTheSame compares bytes of calls and answers with bytes that were written down. Another
// implementation of the protocol must
// read and write the same.
func TestBytesOfCallsStayTheSame(t *testing.T) {
	labeled := rule("labeled", "path", sluice.TokenBucket{Rate: sluice.Per(300, 10*time.Minute), Burst: 300})
	labeled.Match.Descriptor.Label = "tens"
	for _, x := range []struct{ name, request, want string }{
		{
			"one descriptor", // domain d, descriptor user=a
			"0a0164 120b 0a09 0a0475736572 120161",
			// OK; OK, 5 a MINUTE, 4 remain, 50 s
			"0801 120e 0801 1204 0805 1002 1804 2202 0832",
		},
		{
			"two descriptors and hits", // hits of 2 for user=a, of 3 for path=/x by its own number; 5 an HOUR in 2 units for user=b
			"0a0164 120b 0a09 0a0475736572 120161 1210 0a0a 0a0470617468 12022f78 1a02 0803 1215 0a09 0a0475736572 120162 1208 0805 1003 1a02 0802 1802",
			"0801 120e 0801 1204 0805 1002 1803 2202 0832 121a 0801 120f 08ac02 1002 1a0474656e73 2202 080a 18a902 2202 0806 1213 0801 1208 0805 1003 2202 0802 1803 2203 089638",
		},
		{
			"over the limit", // hits of 6
			"0a0164 120b 0a09 0a0475736572 120161 1806",
			"0802 120c 0802 1204 0805 1002 1805 2200",
		},
		{
			"a look, and a refund of nothing",
			"0a0164 120f 0a09 0a0475736572 120161 1a02 0800 1211 0a09 0a0475736572 120162 1a02 0800 2001",
			"0801 120c 0801 1204 0805 1002 1805 2200 120c 0801 1204 0805 1002 1805 2200",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, rule("minute", "user", window(5, time.Minute)), labeled)
			w.serve(Options{Headers: quiet(t)})
			b := unhex(t, x.request)
			answer, err := shouldRateLimit(w.Service, t.Context(), func(m any) error { return m.(*call).UnmarshalWire(b) }, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := withoutMetadata(t, answer.(*call).AppendWire(nil))
			if !bytes.Equal(got, unhex(t, x.want)) {
				t.Errorf("got  %x\nwant %s\nwhich is %s", got, strings.ReplaceAll(x.want, " ", ""), w.text(got))
			}
		})
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withoutMetadata removes the metadata and headers of an answer.
func withoutMetadata(t *testing.T, b []byte) (rest []byte) {
	t.Helper()
	for len(b) > 0 {
		number, _, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		if number == fieldOverall || number == fieldStatuses {
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	return rest
}

// TestMovedMessages checks the sizes of messages inside messages, which take one byte or more.
func TestMovedMessages(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16_383, 16_384, 1 << 21} {
		b, begin := appendBegin([]byte("x"), 1)
		b = appendEnd(append(b, bytes.Repeat([]byte("y"), n)...), begin)
		want := append([]byte("x"), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), bytes.Repeat([]byte("y"), n))...)
		if !bytes.Equal(b, want) {
			t.Errorf("%d bytes: %x…", n, b[:min(len(b), 8)])
		}
	}
}
