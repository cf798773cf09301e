package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Skewed is a server whose clock the test sets, and makes run fast or slow. The processes that call
// the server have the system's clock, so that they and the server disagree.
type Skewed struct {
	*Server
	file string // the skew, in the words of libfaketime
}

// StartSkewed runs redis-server with a clock of its own until the test ends. It works over libfaketime,
// which programs in C load and programs in Go ignore. Where SLUICE_REDIS_SERVER names another server,
// redis-server runs nevertheless: valkey-server does not start under libfaketime.
func StartSkewed(tb testing.TB, opts ...Option) *Skewed {
	tb.Helper()
	library, err := fakeTime()
	if err != nil {
		tb.Fatal(err)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatalf("redistest: a server with a wrong clock is a redis-server: run make test, which installs it or says how (Debian: apt-get install redis-server): %v", err)
	}
	s := &Skewed{file: filepath.Join(tb.TempDir(), "skew")}
	if err := s.Set("+0s"); err != nil {
		tb.Fatal(err)
	}
	own := func(o *options) {
		o.program = path
		o.env = append(
			o.env,
			// The functions of memory come from libc: the server's own need the time before libfaketime
			// can give it.
			"LD_PRELOAD="+library+" libc.so.6",
			"FAKETIME_TIMESTAMP_FILE="+s.file,
			"FAKETIME_NO_CACHE=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1",
		)
	}
	if s.Server, err = New(append(opts, own)...); err != nil {
		tb.Fatal(err)
	}
	s.endWith(tb)
	return s
}

// Set sets the clock from now on: "+30s" and "-2.5s" are ahead of and behind the system's clock, and
// "+0s x1.01" runs a hundredth too fast.
func (s *Skewed) Set(skew string) error {
	// The server never reads a part of the text.
	if err := os.WriteFile(s.file+".new", []byte(skew+"\n"), 0o600); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return os.Rename(s.file+".new", s.file)
}

// fakeTime finds libfaketime for programs with several threads.
func fakeTime() (string, error) {
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 && !strings.Contains(found[0], " ") {
			return found[0], nil
		}
	}
	return "", errors.New("redistest: found no libfaketimeMT.so.1: run make test, which installs it or says how (Debian: apt-get install libfaketime)")
}
