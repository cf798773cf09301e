package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
)

var updateTop = flag.Bool("update-top", false, "write the screens of sluice top again")

// busy returns the view of a busy server, after so many frames.
func busy(frames int) *topView {
	v := &topView{server: "http://127.0.0.1:9090"}
	ninetyNine := int64(99)
	wait := int64(119_000)
	for i := range int64(frames) {
		n := uint64(i)
		burst := n * n / 4
		f := &wire.Live{
			AtMS: 1_000_000 + 1000*i, StartedMS: 100_000, Version: "v1.2.3", Notes: []string{"store: ok"}, Policy: 1,
			Figures: []string{"allowed", "denied", "shadow_denied", "candidate_denied"},
			Rules: []wire.LiveRule{
				{Rule: "login", State: "enforced", Totals: []uint64{10 * n, burst, 0, 0}, Pressure: 4.2},
				{Rule: "per-user", State: "candidate", Totals: []uint64{1000 * n, 3 * n, 0, n}, Pressure: 0.61, Compared: 5, Freed: 3},
				{Rule: "search", State: "shadow", Totals: []uint64{20 * n, 0, 5 * n, 0}, Pressure: 1.25},
				{Rule: "export", State: "candidate", Totals: []uint64{7 * n, 0, 0, 6 * n}, Pressure: 0.1, Units: 7000 * n},
				{Rule: "a-rule-whose-name-is-as-long-as-names-of-rules-can-be-or-so-it-seems"},
				{Rule: noRule, Totals: []uint64{2 * n, 0, 0, 0}},
			},
			Counted: "a b c", Sampled: 256,
			Servers: []wire.Server{
				{Name: "web-1", State: wire.ServerThis},
				{Name: "web-2", Admin: "http://127.0.0.1:9090", State: wire.ServerSilent, SeenMS: 4200},
				{Name: "web-3", State: wire.ServerAnswers},
			},
			Heavy: []wire.HeavyKey{{Rule: "per-user", Digest: "00000000000000dd", Requests: 768_000, Within: 28_000, FirstMS: 1000 * i}},
			Keys: []wire.DeniedKey{
				{Rule: "login", Digest: "00000000000000aa", Role: "enforced", Reason: "banned", Denials: burst, FirstMS: 1000 * i, Now: &wire.LimitUsage{Capacity: 10, Remaining: new(int64), Waits: wire.Waits{RetryAfterMS: &wait}}},
				{Rule: "per-user", Digest: "00000000000000bb", Role: "enforced", Reason: "limited", Denials: 3 * n, Error: 12, FirstMS: 3_500_000, Candidate: &wire.Trial{Compared: 40, WouldDeny: 12}, Now: &wire.LimitUsage{Allowed: true, Capacity: 1_000_000, Remaining: &ninetyNine}},
				{Rule: "search", Digest: "00000000000000cc", Role: "shadow", Reason: "limited", Denials: 5 * n, FirstMS: 90_000},
				{Rule: "per-user", Digest: "00000000000000dd", Role: "enforced", Reason: "limited", Denials: 7, FirstMS: 9000, Candidate: &wire.Trial{Compared: 7}},
				{Rule: "per-user", Digest: "00000000000000ee", Role: "enforced", Reason: "limited", Denials: 7, FirstMS: 9000, Candidate: &wire.Trial{Compared: 7, WouldDeny: 8}},
				{Rule: "per-user", Digest: "00000000000000ee", Role: "candidate", Reason: "limited", Denials: 2 * n, Error: 1, FirstMS: 5000},
			},
		}
		f.Rules[4].Totals = make([]uint64, 4)
		if err := v.add(f); err != nil {
			panic(err)
		}
	}
	return v
}

// drawn returns the texts of a screen.
func drawn(lines []topLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(l.text, " ") + "\n")
	}
	return b.String()
}

// The screens have the sizes of the terminal, and show the same in each size.
func TestScreensOfTop(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 8}, {120, 0}} {
		v := busy(75)
		v.selected = "search"
		lines := v.lines(size[0], size[1])
		if size[1] > 0 && len(lines) != size[1] {
			t.Errorf("a terminal of %d lines gets %d", size[1], len(lines))
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l.text); n > size[0] {
				t.Errorf("a terminal of %d columns gets a line of %d: %q", size[0], n, l.text)
			}
		}
		file := filepath.Join("testdata", "top", fmt.Sprintf("%dx%d.txt", size[0], size[1]))
		got := drawn(lines)
		if *updateTop {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the screen of %v is\n%s\nwant\n%s\n(go test ./internal/cli -run TestScreensOfTop -update-top writes it again)", size, got, want)
		}
	}
}

// Keys of the keyboard change the view.
func TestKeysOfTop(t *testing.T) {
	v := busy(3)
	for _, step := range []struct {
		press string
		want  string // the rules of the view
		check func() bool
	}{
		{"s", "per-user search login export", func() bool { return v.order == 1 }},
		{"s", "login search per-user export", nil},
		{"s", "export login per-user search", nil},
		{"down", "", func() bool { return v.selected != "" }},
		{"/", "", func() bool { return v.filtering }},
		{"l", "", nil},
		{"x", "", nil},
		{"\x7f", "", nil},
		{"o", "", nil},
		{"g", "login", nil},
		{"\r", "login", func() bool { return !v.filtering && v.filter == "log" }},
		{"down", "", func() bool { return v.selected == "login" }},
		{"\r", "login", func() bool { return v.rule == "login" }},
		{"esc", "export login per-user search", func() bool { return v.rule == "" && v.filter == "" }},
		{"k", "", func() bool { return v.unmasked }},
		{"h", "", func() bool { return strings.Contains(drawn(v.lines(80, 20)), "768000±28000") }},
		{"h", "", func() bool { return !strings.Contains(drawn(v.lines(80, 20)), "768000±28000") }},
		{"x", "", nil},
	} {
		if !v.press(step.press) {
			t.Fatalf("%q quits", step.press)
		}
		var names []string
		for _, r := range v.rules() {
			if r.Rule != noRule && !strings.HasPrefix(r.Rule, "a-rule") {
				names = append(names, r.Rule)
			}
		}
		if got := strings.Join(names, " "); step.want != "" && got != step.want || step.check != nil && !step.check() {
			t.Errorf("after %q, the rules are %q, want %q; the view is %+v", step.press, got, step.want, v)
		}
	}
	for _, key := range []string{"q", "\x03"} {
		if v.press(key) {
			t.Errorf("%q does not quit", key)
		}
	}
}

// Keys of clients move no cursor and turn no text.
func TestHostileKeysInTop(t *testing.T) {
	v := busy(2)
	v.unmasked = true
	v.keys = map[string]string{keyID("login", "00000000000000aa"): asciiKey([]string{"\x1b[2J", "\u202e\u200b", "日"})}
	hostile := "\x1b[2J\u202e"
	f := v.last()
	f.Keys[1].Rule, f.Keys[1].Digest, f.Keys[1].Reason, f.Keys[1].Role = hostile, hostile, hostile, hostile
	f.Rules[0].Rule, f.Heavy[0].Rule, f.Heavy[0].Digest = hostile, hostile, hostile
	f.Servers = []wire.Server{{Name: hostile, Admin: hostile, State: wire.ServerSilent}, {NotReady: hostile}, {Name: hostile, State: wire.ServerWaiting}}
	f.ServersUnknown, v.hidden = hostile, hostile
	heavy := screen(v.heavyLines(200))
	got := heavy + screen(v.lines(200, 30))
	if strings.Contains(got, "\x1b[2J") || strings.ContainsAny(got, "\u202e\u200b") || strings.Contains(got, "日") || !strings.Contains(got, `\u202e`) {
		t.Errorf("a hostile key is drawn as %q", got)
	}
}

// With --watch, the keys are listed each second until the command is interrupted.
func TestKeysAreWatched(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"keys":[{"rule":"login","key":["192.0.2.1"],"denials":7,"error":2}]}`)
	}))
	t.Cleanup(s.Close)
	ctx, interrupt := context.WithCancel(t.Context())
	out := &lists{after: 2, then: interrupt}
	root := Root()
	root.SetArgs([]string{"keys", "--watch", "--server", s.URL})
	root.SetOut(out)
	if err := root.ExecuteContext(ctx); err != nil || strings.Count(out.text.String(), "7±2") != 2 {
		t.Errorf("until the interrupt, the command prints %q, %v; want two lists", out.text.String(), err)
	}
}

// A key is revealed once while it is shown, and what is not revealed has a reason. The keys that are remembered are bounded.
func TestTopRevealsKeysOnce(t *testing.T) {
	reveals, second := 0, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/live":
			f := busy(1).last().Live
			for i := range f.Keys[:second] {
				f.Keys[i].Digest = fmt.Sprint("of second ", second)
			}
			_ = json.NewEncoder(w).Encode(f)
		case "/ui/reveal":
			reveals++
			var q struct{ Rule, Digest string }
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost {
				t.Errorf("the question about a key is %s %+v, %v", r.Method, q, err)
			}
			if q.Digest == "00000000000000cc" {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"detail":"Only another server may show it."}`)
				return
			}
			fmt.Fprintf(w, `{"rule":%q,"key":["client of %s"]}`, q.Rule, q.Digest)
		}
	}))
	t.Cleanup(s.Close)
	var c client
	if c.register(new(cobra.Command)); c.server.Set(s.URL) != nil {
		t.Fatal("the URL is not taken")
	}
	v := top{client: &c}
	fetch := func(want int, what string) {
		t.Helper()
		if err := v.fetch(t.Context()); err != nil || reveals != want {
			t.Fatalf("%s: %d keys were revealed, %v; want %d", what, reveals, err, want)
		}
	}
	fetch(0, "fingerprints")
	v.view.press("k")
	fetch(5, "the first second")
	fetch(5, "the next second")
	got := drawn(v.view.lines(200, 30))
	if !strings.Contains(got, `"client of 00000000000000aa"`) || !strings.Contains(got, "some keys stay fingerprints: the server answers 404: Only another server may show it") {
		t.Errorf("the screen is\n%s", got)
	}
	v.view.press("k")
	fetch(5, "fingerprints again")
	v.view.press("k")
	fetch(10, "keys again")
	second = 1
	for len(v.view.keys) < mostRevealed {
		v.view.keys[keyID("other", fmt.Sprint(len(v.view.keys)))] = "x"
	}
	if fetch(15, "after too many keys"); len(v.view.keys) > 5 {
		t.Errorf("%d keys are remembered", len(v.view.keys))
	}
}

// lists calls a function after some lists of keys.
type lists struct {
	text  strings.Builder
	after int
	then  func()
}

func (l *lists) Write(p []byte) (int, error) {
	n, err := l.text.Write(p)
	if strings.Count(l.text.String(), "login") == l.after {
		l.then()
	}
	return n, err
}

// A server that answers no more, restarts, or has another version is shown as such.
func TestTroubleInTop(t *testing.T) {
	v := busy(3)
	v.trouble = "no server answers at\nhttp://127.0.0.1:9090"
	if got := drawn(v.lines(80, 24)); !strings.Contains(got, "NO ANSWER: ") || !strings.Contains(got, "no server answers at http") {
		t.Errorf("without an answer, the screen is\n%s", got)
	}
	if err := v.add(&wire.Live{StartedMS: 5}); err != nil || len(v.frames) != 1 {
		t.Errorf("after a restart, %d frames are kept, %v", len(v.frames), err)
	}
	if err := v.add(&wire.Live{Rules: []wire.LiveRule{{Rule: "x", Totals: []uint64{1}}}}); err == nil {
		t.Error("a frame with numbers without names is taken")
	}
}
