package redisstore

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// TestSlotsEqualTheSpecification: the check value of CRC-16/XMODEM, and the rules of hash tags, as in
// the cluster specification.
func TestSlotsEqualTheSpecification(t *testing.T) {
	for _, c := range []struct {
		key  string
		same string
		want uint16
	}{
		{key: "123456789", want: 0x31c3},
		{key: "", want: 0},
		{key: "foo{123456789}bar", want: 0x31c3},
		{key: "{123456789}{x}", want: 0x31c3},
		{key: "}{123456789}", want: 0x31c3},
	} {
		if got := slotOf(c.key); got != c.want {
			t.Errorf("the slot of %q is %d, want %d", c.key, got, c.want)
		}
	}
	for _, whole := range []string{"a{}b{x}", "a{x", "a}x"} {
		if slotOf(whole) == slotOf("x") {
			t.Errorf("%q is hashed by a part", whole)
		}
	}
}

// slotsClient answers by what the key holds, batches and what ends them.
type slotsClient struct {
	fakeClient
	batches, ends map[string]error
	denies        string // this key, of an algorithm that is not quick
}

func (c *slotsClient) EvalSHA(_ context.Context, sha string, keys, _ []string) (string, error) {
	errs := c.batches
	for i := 1; i < len(kinds); i++ {
		if finishScripts.get(1<<i, finishFiles).sha == sha {
			errs = c.ends
		}
	}
	for key, err := range errs {
		if strings.Contains(keys[0], key) {
			return "", err
		}
	}
	if c.denies != "" && strings.Contains(keys[0], c.denies) {
		return "\x01\x00\x91\xa0", nil
	}
	return "\x01\x03\xc0", nil
}

// TestErrorsOfSlots: an error of a batch over several slots says that nothing has changed
// only if that holds for all of them.
func TestErrorsOfSlots(t *testing.T) {
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	refused := &ServerError{Text: "CLUSTERDOWN Hash slot not served"}
	for name, c := range map[string]struct {
		batches, ends map[string]error
		shadow        bool
		denies        string
		unknown       bool
	}{
		"one refuses, and the others are given back":    {batches: map[string]error{"{b}": refused}},
		"one refuses, and one cannot be given back":     {batches: map[string]error{"{b}": refused}, ends: map[string]error{"{c}": refused}, unknown: true},
		"one refuses, and one is unknown":               {batches: map[string]error{"{a}": refused, "{b}": io.EOF, "{c}": refused}, unknown: true},
		"one refuses, and a shadow is charged for good": {batches: map[string]error{"{b}": refused}, shadow: true, unknown: true},
		"one refuses, and another counts a denial":      {batches: map[string]error{"{b}": refused}, denies: "{c}", unknown: true},
	} {
		s, err := New(&slotsClient{batches: c.batches, ends: c.ends, denies: c.denies}, Options{Cluster: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // in any order
			var rs []sluice.Request
			for _, key := range []string{"a", "b", "c"} {
				rs = append(rs, sluice.Request{Limit: l, Key: sluice.StringKey(key), Cost: 1, Shadow: c.shadow && key == "a"})
			}
			if c.denies != "" {
				rs[2].Limit = sluice.MustLimit("counts", sluice.FixedWindow{Rate: sluice.PerSecond(5), CountDenied: true})
			}
			err := s.DecideAll(t.Context(), rs, make([]sluice.Decision, len(rs)))
			var answer *ServerError
			if errors.Is(err, sluice.ErrUnknownOutcome) != c.unknown || !errors.As(err, &answer) {
				t.Fatalf("%s: the error is %v, want an unknown outcome: %v", name, err, c.unknown)
			}
		}
	}
}

// TestDenialsOfSlots: the denials of one slot are reported, although another slot fails.
func TestDenialsOfSlots(t *testing.T) {
	refused := &ServerError{Text: "CLUSTERDOWN Hash slot not served"}
	s, err := New(&slotsClient{batches: map[string]error{"{b}": refused}, denies: "{c}"}, Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	bucket := sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	window := sluice.MustLimit("window", sluice.FixedWindow{Rate: sluice.PerSecond(5)})
	for _, c := range []struct {
		name   string
		shadow bool
		denied bool
	}{
		{"a request", false, true},
		{"a shadow", true, false},
	} {
		rs := []sluice.Request{
			{Limit: bucket, Key: sluice.StringKey("a"), Cost: 1},
			{Limit: bucket, Key: sluice.StringKey("b"), Cost: 1},
			{Limit: window, Key: sluice.StringKey("c"), Cost: 6, Shadow: c.shadow},
		}
		err := s.DecideAll(t.Context(), rs, make([]sluice.Decision, len(rs)))
		var answer *ServerError
		if !errors.As(err, &answer) {
			t.Fatalf("%s: %v does not say what the other slot answered", c.name, err)
		}
		var denial *driver.DenialError
		if errors.As(err, &denial) != c.denied {
			t.Fatalf("%s: the error is %v, want a denial: %v", c.name, err, c.denied)
		}
		if c.denied && (len(denial.Denied) != 1 || denial.Denied[2].Reason != sluice.ReasonNever || denial.Denied[2].Limit != 5) {
			t.Errorf("%s: the denials are %+v", c.name, denial.Denied)
		}
	}
}

// TestNothingToGiveBack: where nothing was charged, nothing is unknown, though time is up.
func TestNothingToGiveBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := New(&slotsClient{batches: map[string]error{"{a}": &ServerError{Text: "CLUSTERDOWN Hash slot not served"}}, denies: "{b}"}, Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	window := sluice.MustLimit("window", sluice.FixedWindow{Rate: sluice.PerSecond(5)})
	rs := []sluice.Request{
		{Limit: window, Key: sluice.StringKey("a"), Cost: 6},
		{Limit: window, Key: sluice.StringKey("b"), Cost: 6},
	}
	for range 100 {
		err := s.DecideAll(ctx, rs, make([]sluice.Decision, len(rs)))
		if err == nil || errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Fatalf("one slot refused and the other denied: %v", err)
		}
	}
}

// halfClient answers for one key, and not at all for others.
type halfClient struct {
	fakeClient
	answers  string
	finished chan string // the keys of calls after the batch
}

func (c *halfClient) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	if !strings.Contains(keys[0], c.answers) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if sha == finishScripts.get(1<<1, finishFiles).sha {
		c.finished <- keys[0]
	}
	return "\x01\x03\xc0", nil
}

// TestGivesBackLate: what was charged in one slot is given back, though the batch's time
// was over when another slot had not answered.
func TestGivesBackLate(t *testing.T) {
	client := &halfClient{answers: "{a}", finished: make(chan string, 1)}
	s, err := New(client, Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	rs := []sluice.Request{
		{Limit: l, Key: sluice.StringKey("a"), Cost: 1},
		{Limit: l, Key: sluice.StringKey("b"), Cost: 1},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.DecideAll(ctx, rs, make([]sluice.Decision, 2)); !errors.Is(err, sluice.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
	select {
	case key := <-client.finished:
		if !strings.HasPrefix(key, "sluice{a}") {
			t.Errorf("given back at %q", key)
		}
	case <-time.After(5 * time.Second):
		t.Error("nothing was given back")
	}
}

// slowClient refuses batches about some key, and lets what ends a charge run for longer than
// the batch's time.
type slowClient struct {
	slotsClient
	batch    context.Context
	finished chan error
}

func (c *slowClient) EvalSHA(ctx context.Context, sha string, keys, args []string) (string, error) {
	if sha == finishScripts.get(1<<1, finishFiles).sha {
		<-c.batch.Done()
		c.finished <- ctx.Err()
		return "\x01\x01", ctx.Err()
	}
	return c.slotsClient.EvalSHA(ctx, sha, keys, args)
}

// TestGivesBackBeyondTheDeadline: what is being given back when the batch's time ends is
// not left there.
func TestGivesBackBeyondTheDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	client := &slowClient{
		slotsClient: slotsClient{batches: map[string]error{"{b}": &ServerError{Text: "CLUSTERDOWN"}}},
		batch:       ctx, finished: make(chan error, 1),
	}
	s, err := New(client, Options{Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	rs := []sluice.Request{
		{Limit: l, Key: sluice.StringKey("a"), Cost: 1},
		{Limit: l, Key: sluice.StringKey("b"), Cost: 1},
	}
	for range 3 { // in time at first, and then too late already
		if err := s.DecideAll(ctx, rs, make([]sluice.Decision, 2)); err == nil {
			t.Error("no error")
		}
		if err := <-client.finished; err != nil {
			t.Fatalf("what was charged stays: %v", err)
		}
	}
}
