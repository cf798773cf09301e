package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a file that is watched.
type scene struct {
	t       *testing.T
	dir     string
	path    string
	changes chan string // what the file holds at each change
}

func (s *scene) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) rename(from, to string) {
	s.t.Helper()
	if err := os.Rename(filepath.Join(s.dir, from), filepath.Join(s.dir, to)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) link(target, name string) {
	s.t.Helper()
	if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) mkdir(name string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) remove(name string) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits for a change after which the file holds a text.
func (s *scene) expect(text string) {
	s.t.Helper()
	late := time.After(patience)
	for {
		select {
		case got := <-s.changes:
			if got == text {
				return
			}
		case <-late:
			s.t.Fatalf("no change to %q was seen", text)
		}
	}
}

// watch runs a Watcher until the test ends.
func (s *scene) watch(o Options) {
	s.t.Helper()
	o.Path, o.Most = filepath.Join(s.dir, s.path), 1<<20
	if o.Quiet == 0 {
		o.Quiet = 20 * time.Millisecond
	}
	w := New(o)
	ctx, stop := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		w.Run(ctx, func() {
			text, err := os.ReadFile(o.Path)
			if err != nil {
				text = []byte("gone")
			}
			s.changes <- string(text)
		})
	})
	s.t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// TestChangesAreSeen puts other content into a file in all ways there are. Polling
// is off, so that each is seen by its sign.
func TestChangesAreSeen(t *testing.T) {
	for name, run := range map[string]func(s *scene){
		"written in place": func(s *scene) {
			s.write("f", "one")
			s.watch(Options{Poll: time.Hour})
			for i := range 3 {
				s.write("f", fmt.Sprint(i))
				s.expect(fmt.Sprint(i))
			}
		},
		"renamed over": func(s *scene) {
			s.write("f", "one")
			s.watch(Options{Poll: time.Hour})
			for i := range 3 { // the watch survives the first one
				s.write(".f.swp", fmt.Sprint(i))
				s.rename(".f.swp", "f")
				s.expect(fmt.Sprint(i))
			}
		},
		"gone and back": func(s *scene) {
			s.write("f", "one")
			s.watch(Options{Poll: time.Hour})
			s.remove("f")
			s.expect("gone")
			s.write("f", "one")
			s.expect("one")
		},
		"as Kubernetes mounts it": func(s *scene) {
			s.mkdir("..1")
			s.write("..1/f", "one")
			s.link("..1", "..data")
			s.link("..data/f", "f")
			s.watch(Options{Poll: time.Hour})
			for i := 2; i < 5; i++ {
				dir := fmt.Sprintf("..%d", i)
				s.mkdir(dir)
				s.write(dir+"/f", dir)
				s.link(dir, "..data_tmp")
				s.rename("..data_tmp", "..data")
				s.remove(fmt.Sprintf("..%d", i-1))
				s.expect(dir)
			}
		},
		"a link to a file elsewhere": func(s *scene) {
			s.mkdir("elsewhere")
			s.write("elsewhere/g", "one")
			s.link("elsewhere/g", "f")
			s.watch(Options{Poll: time.Hour})
			s.write("elsewhere/g", "two")
			s.expect("two")
			s.write("elsewhere/h", "three")
			s.link("elsewhere/h", "f.new")
			s.rename("f.new", "f")
			s.expect("three")
			s.write("elsewhere/h", "four")
			s.expect("four")
		},
		"in a folder that is a link": func(s *scene) {
			s.mkdir("v1")
			s.mkdir("v2")
			s.write("v1/f", "one")
			s.write("v2/f", "two")
			s.link("v1", "current")
			s.path = "current/f"
			s.watch(Options{Poll: time.Hour})
			s.link("v2", "next")
			s.rename("next", "current")
			s.expect("two")
			s.write("v2/f", "three")
			s.expect("three")
		},
		"in a folder that comes later, by polling": func(s *scene) {
			s.path = "later/f"
			s.watch(Options{Poll: 10 * time.Millisecond})
			s.mkdir("later")
			s.write("later/f", "one")
			s.expect("one")
			s.remove("later")
			s.expect("gone")
			s.mkdir("later")
			s.write("later/f", "two")
			s.expect("two")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(&scene{t: t, dir: t.TempDir(), path: "f", changes: make(chan string, 100)})
		})
	}
}

// Without events the file is still read, and Degraded reports it.
func TestPollsWithoutSigns(t *testing.T) {
	s := &scene{t: t, dir: t.TempDir(), path: "f"}
	s.write("f", "one")
	w := New(Options{Path: filepath.Join(s.dir, "f"), Most: 10, Poll: time.Millisecond})
	if err := w.Degraded(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.events, w.err = nil, os.ErrInvalid
	if err := w.Degraded(); err == nil {
		t.Error("Degraded does not report that there are no events")
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	s.write("f", "two")
	seen := false
	w.Run(ctx, func() {
		seen = true
		stop()
	})
	if !seen {
		t.Error("the change was not seen")
	}
}

// The files that a file names are watched as long as it does.
func TestNamedFilesAreWatched(t *testing.T) {
	s := &scene{t: t, dir: t.TempDir(), path: "f", changes: make(chan string, 100)}
	s.write("f", "one")
	s.write("g", "x")
	s.mkdir("lists")
	s.write("lists/h", "x")
	var named atomic.Pointer[string]
	s.watch(Options{Poll: time.Hour, Others: func() []string {
		if name := named.Load(); name != nil {
			return []string{filepath.Join(s.dir, *name)}
		}
		return nil
	}})
	s.write("f", "names g")
	s.expect("names g")
	name := "g"
	named.Store(&name)
	s.write("f", "names g now")
	s.expect("names g now")
	s.write("g", "y")
	s.expect("names g now")
	name2 := "lists/h"
	named.Store(&name2)
	s.write("f", "names h")
	s.expect("names h")
	for len(s.changes) > 0 {
		<-s.changes
	}
	s.write("g", "z") // nobody names it any more
	s.write("lists/h", "y")
	s.expect("names h")
	if n := len(s.changes); n > 0 {
		t.Errorf("%d changes too many were reported", n)
	}
}

// A change that comes while another one is being reported is reported too.
func TestChangesMeanwhileAreSeen(t *testing.T) {
	s := &scene{t: t, dir: t.TempDir(), path: "f"}
	s.write("f", "0")
	path := filepath.Join(s.dir, "f")
	w := New(Options{Path: path, Most: 10, Poll: time.Hour, Quiet: time.Millisecond})
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	s.write("f", "1")
	reported := 0
	w.Run(ctx, func() {
		if reported++; reported == 5 {
			stop()
		} else {
			s.write("f", fmt.Sprint(reported+1))
		}
	})
	if reported != 5 {
		t.Errorf("%d changes were reported, want 5", reported)
	}
}

// What happens at once is one change, and what changes nothing is none; but signs that
// never end do not hide a change.
func TestSignsAreGathered(t *testing.T) {
	s := &scene{t: t, dir: t.TempDir(), path: "f", changes: make(chan string, 1000)}
	s.write("f", "0")
	s.watch(Options{Poll: time.Hour, Quiet: 50 * time.Millisecond})
	for i := range 100 {
		s.write("f", fmt.Sprint(i))
	}
	s.expect("99")
	if n := len(s.changes); n > 10 {
		t.Errorf("100 changes in a row were reported %d times", n)
	}
	s.write("f", "99") // the same again
	s.write("other", "x")

	s.write("f", "last")
	noise := time.NewTicker(5 * time.Millisecond)
	defer noise.Stop()
	late := time.After(patience)
	for {
		select {
		case <-noise.C:
			s.write("other", time.Now().String())
			continue
		case got := <-s.changes:
			if got != "last" { // half of what was written
				continue
			}
		case <-late:
			t.Error("the change was not seen among the signs")
		}
		return
	}
}

// A file that is being written is reported once, when it is complete; and a change before New is reported if that is wanted.
func TestWaitsForTheWriter(t *testing.T) {
	s := &scene{t: t, dir: t.TempDir(), path: "f", changes: make(chan string, 100)}
	s.write("f", "one")
	s.watch(Options{Poll: time.Hour, Quiet: 200 * time.Millisecond, Since: true})
	s.expect("one")
	for n := range 20 {
		s.write("f", strings.Repeat("x", n))
		select {
		case got := <-s.changes:
			t.Fatalf("%q is reported before the file is complete", got)
		case <-time.After(50 * time.Millisecond): // the pause of the writer
		}
	}
	s.expect(strings.Repeat("x", 19))
	if n := len(s.changes); n > 0 {
		t.Errorf("%d changes too many were reported", n)
	}
}

// A change is reported only after a second look has found the same content: a writer may pause for longer than events do.
func TestAChangeMustStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	w := New(Options{Path: path, Most: 100})
	defer w.Close()
	for _, step := range []struct {
		text string
		want outcome
	}{{"one", same}, {"t", changing}, {"tw", changing}, {"two", changing}, {"two", settled}, {"two", same}, {"one", changing}, {"two", same}} {
		write(step.text)
		if got := w.look(); got != step.want {
			t.Errorf("a look finds %q: %d, want %d", step.text, got, step.want)
		}
	}
}

// A folder changes when files come and go, in it and in its folders, and when a link on the way to it is replaced.
func TestFoldersAreWatched(t *testing.T) {
	s := &scene{t: t, dir: t.TempDir(), path: "current/config", changes: make(chan string, 100)}
	s.mkdir("v1/config/more")
	s.write("v1/config/a", "one")
	s.mkdir("v2/config")
	s.write("v2/config/a", "two")
	s.link("v1", "current")
	file := filepath.Join(s.dir, "current", "config", "a")
	s.watch(Options{Poll: time.Hour, Others: func() []string { return []string{file} }})
	seen := func(what string) {
		t.Helper()
		select {
		case <-s.changes:
		case <-time.After(patience):
			t.Fatalf("%s was not seen", what)
		}
	}
	s.write("v1/config/a", "other")
	seen("a change of a file")
	s.write("v1/config/b", "x")
	seen("a new file")
	s.remove("v1/config/b")
	seen("the end of a file")
	s.link("v2", "next")
	s.rename("next", "current")
	seen("another folder")
}
