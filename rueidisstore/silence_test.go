package rueidisstore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
)

// TestRueidisLeavesSilentConnections is a table of when a connection is closed.
func TestRueidisLeavesSilentConnections(t *testing.T) {
	const silence = 400 * time.Millisecond // what the documentation promises
	for name, tt := range map[string]struct {
		reads   bool          // the server answers the first write
		gaveUp  bool          // a caller gave up after the first write
		failed  bool          // a call failed after the first write, and its caller had time left
		beside  bool          // no decision waited for the call
		after   time.Duration // until the second write
		isEnded bool
	}{
		"silent, and a caller gave up":                     {false, true, false, false, silence, true},
		"silent, and the call of a patient caller failed":  {false, false, true, false, silence, false},
		"silent, and a call beside decisions was given up": {false, true, false, true, silence, false},
		"silent for less time":                             {false, true, false, false, silence - time.Millisecond, false},
		"silent, and all callers are patient":              {false, false, false, false, time.Minute, false},
		"it has answered":                                  {true, true, false, false, time.Minute, false},
		"it has answered, and nobody has given up":         {true, false, false, false, time.Minute, false},
		"silent for long, and a caller has given up":       {false, true, false, false, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				l := newLane()
				c := &watched{Conn: near, lane: l}
				defer c.Close()
				go func() { // the server
					in := bufio.NewReader(far)
					for {
						line, err := in.ReadString('\n')
						if err != nil {
							return
						}
						if tt.reads && line == "first\n" {
							_, _ = far.Write([]byte("reply\n"))
						}
					}
				}()
				<-time.After(time.Minute) // it was idle before
				if _, err := c.Write([]byte("first\n")); err != nil {
					t.Fatal(err)
				}
				if tt.reads {
					if _, err := c.Read(make([]byte, 6)); err != nil {
						t.Fatal(err)
					}
				}
				const early = 50 * time.Millisecond
				<-time.After(early)
				if tt.gaveUp || tt.failed {
					ctx, cancel := context.WithCancel(t.Context())
					if tt.gaveUp {
						cancel()
					}
					if tt.beside {
						ctx = beside{ctx}
					}
					l.note(ctx, l.now(), context.DeadlineExceeded)
					cancel()
				}
				<-time.After(tt.after - early)
				_, err := c.Write([]byte("second\n"))
				if errors.Is(err, errSilent) != tt.isEnded || !tt.isEnded && err != nil {
					t.Errorf("the second write: %v", err)
				}
				if _, err := near.Write([]byte("third\n")); (err != nil) != tt.isEnded {
					t.Errorf("the connection is closed: %v; want %v", err != nil, tt.isEnded)
				}
			})
		})
	}
}

// All ways to connect are watched, and the programs' own settings of the socket are kept.
func TestWatchKeepsTheDialer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var controls atomic.Int64
	refuse := errors.New("refused by the program")
	control := func(string, string, syscall.RawConn) error {
		controls.Add(1)
		return nil
	}
	direct := func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", address)
	}
	for name, tt := range map[string]struct {
		o    rueidis.ClientOption
		want error
	}{
		"nothing": {rueidis.ClientOption{Dialer: net.Dialer{Control: control}}, nil},
		"a context": {rueidis.ClientOption{Dialer: net.Dialer{ControlContext: func(_ context.Context, network, address string, c syscall.RawConn) error {
			return control(network, address, c)
		}}}, nil},
		"a dialer": {rueidis.ClientOption{Dialer: net.Dialer{Control: control}, DialCtxFn: direct}, nil},
		"an old dialer": {rueidis.ClientOption{Dialer: net.Dialer{Control: control}, DialFn: func(address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			return direct(context.Background(), address, d, config)
		}}, nil},
		"a refusal": {rueidis.ClientOption{Dialer: net.Dialer{Control: func(string, string, syscall.RawConn) error {
			controls.Add(1)
			return refuse
		}}}, refuse},
	} {
		t.Run(name, func(t *testing.T) {
			controls.Store(0)
			newLane().watch(&tt.o)
			c, err := tt.o.DialCtxFn(t.Context(), listener.Addr().String(), &tt.o.Dialer, nil)
			if !errors.Is(err, tt.want) || controls.Load() != 1 {
				t.Fatalf("%v, and the program's own settings were called %d times", err, controls.Load())
			}
			if err != nil {
				return
			}
			defer c.Close()
			if _, ok := c.(*watched); !ok {
				t.Errorf("the connection is a %T", c)
			}
		})
	}
}
