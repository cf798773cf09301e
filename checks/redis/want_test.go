package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// counting counts how often it ran.
const counting = `return tostring(redis.call('INCR', KEYS[1])) .. ARGV[1]`

// counted returns how often counting ran on a key.
func counted(t *testing.T, s *redistest.Server, key string) int64 {
	t.Helper()
	n, err := s.Int(redistest.Within(t, redistest.Soon), "INCRBY", key, "0")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantCount(t *testing.T, s *redistest.Server, key string, want int64) {
	t.Helper()
	if n := counted(t, s, key); n != want {
		t.Fatalf("the script ran %d times; want %d", n, want)
	}
}

// load gives counting to a server and returns its digest.
func load(t *testing.T, s *redistest.Server) string {
	t.Helper()
	sha, err := s.Text(redistest.Within(t, redistest.Soon), "SCRIPT", "LOAD", counting)
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

func wantReply(t *testing.T, want, got string, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("the reply is %q, %v; want %q", got, err, want)
	}
}

// wantServerError checks that a reply is an error that the server wrote.
func wantServerError(t *testing.T, err error, prefix string) {
	t.Helper()
	var reply *redisstore.ServerError
	if !errors.As(err, &reply) || !strings.HasPrefix(reply.Text, prefix) {
		t.Fatalf("%v; want the server's error %s", err, prefix)
	}
}

// wantUnknown checks that an error leaves open whether the script ran.
func wantUnknown(t *testing.T, err error) {
	t.Helper()
	var reply *redisstore.ServerError
	if err == nil || errors.As(err, &reply) || errors.Is(err, redisstore.ErrNotSent) {
		t.Fatalf("%v; want an error that leaves open whether the script ran", err)
	}
}

func wantNotSent(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, redisstore.ErrNotSent) {
		t.Fatalf("%v; want one that wraps ErrNotSent", err)
	}
}

// wantMisfit checks that an error is a MisfitError with a text.
func wantMisfit(t *testing.T, err error, part string) {
	t.Helper()
	var misfit *redisstore.MisfitError
	if !errors.As(err, &misfit) || !strings.Contains(err.Error(), part) {
		t.Errorf("%v; want that it never works, and %q", err, part)
	}
}
