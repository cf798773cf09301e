package upstream

import (
	"io"
	"net"
	"testing"
)

// client counts how often what it has not been sent yet is sent.
type client struct{ flushed int }

func (c *client) FlushPending() error {
	c.flushed++
	return nil
}

// A read without a descriptor sends what is pending first, returns what has come, and touches no answer that has ended.
func TestReadsSendWhatIsPending(t *testing.T) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	c := New(ours, nil)
	t.Cleanup(func() { _ = c.Close() })
	read := func() {
		t.Helper()
		go func() { _, _ = io.WriteString(theirs, "ok") }() // read below
		if n, err := io.ReadFull(c, make([]byte, 2)); n != 2 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	first, next := new(client), new(client)
	for i, step := range []struct {
		do          func()
		first, next int
	}{
		{func() {}, 0, 0},
		{func() { c.Serve(first) }, 1, 0},
		{func() { c.Release(first) }, 1, 0},
		{func() { c.Serve(next) }, 1, 1},
		{func() { c.Release(first) }, 1, 2},
		{func() { c.Release(nil) }, 1, 2},
	} {
		step.do()
		if read(); first.flushed != step.first || next.flushed != step.next {
			t.Errorf("step %d: sent %d and %d times, want %d and %d", i, first.flushed, next.flushed, step.first, step.next)
		}
	}
}
