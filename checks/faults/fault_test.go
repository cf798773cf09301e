package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
)

// A site is a server, and the way to it.
type site struct {
	*testing.T
	server *redistest.Server
	proxy  *redistest.Proxy
	busy   chan error // what became of the busy script
}

// A fault is what can befall a server or the way to it.
type fault struct {
	name    string
	sign    string // in the errors that the breaker opens for
	options []redistest.Option
	proxied bool // it is one of the way
	loses   bool // what the server holds
	refuses bool // connections: when many were refused, go-redis tries once a second
	begin   func(s *site) error
	end     func(s *site) error
}

// faultTime is how long faults last. A paused server obeys no command that would end
// the pause, so the command that pauses it has the time.
const (
	faultTime      = 1200 * time.Millisecond
	faultTimeShort = 600 * time.Millisecond
)

// ballast is what makes loading take so long as a fault lasts.
const ballast = `
	for i = 1, 6000 do
		redis.call('SET', 'ballast' .. i, string.rep('x', 100), 'PX', 3600000)
	end`

func faults(lasting time.Duration) []fault {
	late := "time" // out: go-redis says so before the guard does
	return []fault{
		{
			name: "SIGSTOP", sign: late,
			begin: func(s *site) error { return s.server.Pause() },
			end:   func(s *site) error { return s.server.Resume() },
		},
		{
			name: "SIGKILL", loses: true, refuses: true,
			begin: func(s *site) error { return s.server.Kill() },
			end:   func(s *site) error { return s.server.Restart() },
		},
		{
			name: "CLIENT PAUSE", sign: late,
			begin: func(s *site) error {
				return s.do("CLIENT", "PAUSE", fmt.Sprint(lasting.Milliseconds()), "ALL")
			},
			end: func(s *site) error { return s.do("PING") },
		},
		{
			name: "busy script", sign: "BUSY",
			options: []redistest.Option{redistest.Config("lua-time-limit 20")},
			begin:   (*site).beginBusy,
			end:     (*site).endBusy,
		},
		{
			name: "OOM", sign: "OOM",
			begin: func(s *site) error { return s.do("CONFIG", "SET", "maxmemory", "1") },
			end:   func(s *site) error { return s.do("CONFIG", "SET", "maxmemory", "0") },
		},
		{
			name: "READONLY", sign: "READONLY",
			begin: func(s *site) error { return s.do("REPLICAOF", "127.0.0.1", "1") },
			end:   func(s *site) error { return s.do("REPLICAOF", "NO", "ONE") },
		},
		{
			name: "LOADING", sign: "LOADING", refuses: true, loses: true, // what came after SAVE
			options: []redistest.Option{redistest.Config(
				// A probe comes twice a second, and loading must last until one.
				fmt.Sprintf("key-load-delay %d", (lasting+time.Second).Microseconds()/6000),
				"loading-process-events-interval-bytes 1024",
			)},
			begin: func(s *site) error {
				return errors.Join(s.do("EVAL", ballast, "0"), s.do("SAVE"), s.server.Launch())
			},
			end: func(s *site) error { return s.server.WaitReady(redistest.Within(s, redistest.Soon)) },
		},
		{
			name: "reset", proxied: true, refuses: true,
			begin: func(s *site) error { return s.proxy.Reset() },
			end:   func(s *site) error { return s.proxy.Pass() },
		},
		{
			name: "refuse", proxied: true, refuses: true,
			begin: func(s *site) error { return s.proxy.Refuse() },
			end:   func(s *site) error { return s.proxy.Pass() },
		},
		{
			name: "latency", sign: late, proxied: true,
			begin: func(s *site) error { return s.proxy.Delay(loadDeadline * 8 / 5) },
			end:   func(s *site) error { return s.proxy.Pass() },
		},
		{
			name: "silence", sign: late, proxied: true,
			begin: func(s *site) error { return s.proxy.Hold() },
			end:   func(s *site) error { return s.proxy.Pass() },
		},
		{
			name: "cut reply", proxied: true,
			begin: func(s *site) error { return s.proxy.Cut("evalsha", 5) },
			end:   func(s *site) error { return s.proxy.Pass() },
		},
	}
}

func (s *site) do(args ...string) error {
	_, err := s.server.Do(redistest.Within(s, redistest.Soon), args...)
	return err
}

// beginBusy runs a script without an end, and returns when the server replies BUSY.
func (s *site) beginBusy() error {
	s.busy = make(chan error, 1)
	go func() { s.busy <- s.do("EVAL", "while true do end", "0") }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if err := s.do("PING"); err != nil && strings.HasPrefix(err.Error(), "BUSY") {
			return nil
		}
		<-tick.C
	}
	return errors.New("the server never says that it is busy")
}

func (s *site) endBusy() error {
	err := s.do("SCRIPT", "KILL")
	var killed redistest.Error
	if ended := <-s.busy; !errors.As(ended, &killed) {
		err = errors.Join(err, fmt.Errorf("the busy script ended with %w", ended))
	}
	return err
}
