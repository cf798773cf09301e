package goredisstore

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestGoredisLeavesSilentConnections is a table of when go-redis does not use an idle connection again, after a call on another connection.
func TestGoredisLeavesSilentConnections(t *testing.T) {
	for name, c := range map[string]struct {
		fails bool          // the call gives up after 50 ms
		reads bool          // the server answers after that time
		after time.Duration // from the beginning of the call to the check
		want  error
	}{
		"silent, and the call failed":       {true, false, silence, errSilent},
		"silent for long":                   {true, false, time.Hour, errSilent},
		"silent for less time":              {true, false, silence - time.Millisecond, nil},
		"silent, and the call is patient":   {false, false, time.Minute, nil},
		"answered":                          {false, true, time.Minute, nil},
		"answered after the call has ended": {true, true, time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{start: time.Now()}
				pipe := func() (near, far net.Conn) {
					near, far = net.Pipe()
					t.Cleanup(func() { _, _ = near.Close(), far.Close() })
					return s.watch(near), far
				}
				check := func(c net.Conn) error {
					_, err := c.(syscall.Conn).SyscallConn()
					return err
				}
				idle, _ := pipe()
				used, far := pipe()
				<-time.After(time.Minute) // both were idle before
				began := time.Now()
				go func() { _, _ = far.Read(make([]byte, 4)) }()
				if _, err := used.Write([]byte("call")); err != nil {
					t.Fatal(err)
				}
				if c.fails {
					_ = used.SetReadDeadline(began.Add(50 * time.Millisecond))
					if _, err := used.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Fatal(err)
					}
					_ = used.SetReadDeadline(time.Time{})
				}
				if c.reads {
					go func() { _, _ = far.Write([]byte("+")) }()
					if _, err := used.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(time.Until(began.Add(c.after)))
				if err := check(idle); !errors.Is(err, c.want) {
					t.Errorf("the check of an idle connection: %v; want %v", err, c.want)
				}
				if c.want == nil {
					return
				}
				fresh, far := pipe()
				go func() { _, _ = far.Write([]byte("+")) }()
				if _, err := fresh.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if err := check(fresh); err != nil {
					t.Errorf("the check of a new connection: %v", err)
				}
				if err := check(idle); !errors.Is(err, errSilent) {
					t.Errorf("after a new connection is read, the check of an idle one: %v; want errSilent", err)
				}
			})
		})
	}
}

// TestCachesKeepTheirConnections is a client whose cache looks into its connections.
func TestCachesKeepTheirConnections(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	client := redis.NewClient(&redis.Options{Protocol: 3, ClientSideCacheConfig: &redis.ClientSideCacheConfig{}})
	defer client.Close()
	if got := newServer(client).watch(near); got != near {
		t.Errorf("the connection is a %T", got)
	}
}
