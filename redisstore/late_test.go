package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

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
	if sha == finishScripts[1].sha {
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
	if sha == finishScripts[1].sha {
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
