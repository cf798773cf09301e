package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// topEvery is the time between two questions to the server.
const topEvery = time.Second

func newTop() *cobra.Command {
	var c client
	var once, asJSON bool
	t := top{client: &c}
	cmd := &cobra.Command{
		Use:   "top [RULE]",
		Short: "Show what is limited now, each second",
		Long: "Show what a running server limits now, each second: the rules with their requests, denials and\n" +
			"pressure, and the keys that were denied most, why, and when they pass again. With RULE, show the\n" +
			"keys of that rule.\n\n" +
			"  up, down   select a rule          s   sort by denials, requests, pressure or name\n" +
			"  enter      show its keys only     /   show rules whose names contain a text\n" +
			"  esc        show all again         k   show keys, in place of their fingerprints\n" +
			"  q          quit                   h   show the heaviest keys first\n\n" +
			"Without a terminal, or with --once, print one second and exit. The numbers are of all servers that\n" +
			"share the Redis of the server, or of the server only with --this. WOULD is what a rule in shadow or\n" +
			"a candidate would deny, and FREES how many keys a candidate would free. CANDIDATE is what it would\n" +
			"do to a key: free it, leave 5% of its denials, or newly limit it. The audit log notes which keys are\n" +
			"shown. The admin listener has the same as a page, at /ui/.\n\n" + about,
		Example: "  sluice top\n  sluice top login --once\n  sluice top --json | jq .keys",
		Args:    mayHaveRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.view.rule = args[0]
			}
			out, isFile := cmd.OutOrStdout().(*os.File)
			if asJSON || once || !isFile || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
				return t.print(cmd.Context(), cmd.OutOrStdout(), asJSON, once || !asJSON)
			}
			return t.run(cmd.Context(), os.Stdin, out)
		},
	}
	cmd.Flags().BoolVar(&t.alone, "this", false, "show only the server that is called, and not all servers of its Redis")
	cmd.Flags().BoolVar(&once, "once", false, "print one second and exit")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the server's answer each second, in JSON, a line each")
	c.register(cmd)
	return cmd
}

// top shows frames of a server.
type top struct {
	client *client
	view   topView
	alone  bool            // the numbers are of the called server, and not of all servers
	text   json.RawMessage // the last frame, as the server wrote it
}

// fetch gets a frame, and what the view needs beside it.
func (t *top) fetch(ctx context.Context) error {
	q := url.Values{"servers": {"all"}, "rule": {t.view.rule}}
	if t.alone {
		q.Set("servers", "this")
	}
	if err := t.client.call(ctx, http.MethodGet, "/v1/live?"+q.Encode(), nil, &t.text); err != nil {
		return err
	}
	var f wire.Live
	if err := json.Unmarshal(t.text, &f); err != nil {
		return t.client.strange()
	}
	for _, k := range f.Keys {
		t.reveal(ctx, k.Rule, k.Digest)
	}
	for _, k := range f.Heavy {
		t.reveal(ctx, k.Rule, k.Digest)
	}
	t.view.server = string(t.client.server)
	return t.view.add(&f)
}

// mostRevealed bounds the keys that are remembered.
const mostRevealed = 1000

// reveal gets the values of a key once, if they are shown. The server finds a key that another server of the store
// denied there.
func (t *top) reveal(ctx context.Context, rule, digest string) {
	id := keyID(rule, digest)
	if _, known := t.view.keys[id]; known || !t.view.unmasked {
		return
	}
	if len(t.view.keys) == mostRevealed {
		clear(t.view.keys) // each second may have other keys
	}
	var key keyedRule
	if err := t.client.call(ctx, http.MethodPost, "/ui/reveal", map[string]string{"rule": rule, "digest": digest}, &key); err != nil {
		t.view.keys[id], t.view.hidden = "", err.Error()
		return
	}
	t.view.keys[id] = asciiKey(key.Key)
}

// settle fetches frames until rates can be measured and all servers have answered, or for a few seconds.
func (t *top) settle(ctx context.Context) error {
	for frames := 1; ; frames++ {
		if err := t.fetch(ctx); err != nil {
			return err
		}
		waiting := slices.ContainsFunc(t.view.last().Servers, func(s wire.Server) bool { return s.State == wire.ServerWaiting })
		if frames > 1 && !waiting || frames == 5 {
			return nil
		}
		if !pause(ctx, topEvery) {
			return ctx.Err()
		}
	}
}

// print prints what happened within a second; or the answer of the server, once or each second.
func (t *top) print(ctx context.Context, out io.Writer, asJSON, once bool) error {
	get := t.settle
	if !once {
		get = t.fetch
	}
	for {
		if err := get(ctx); err != nil {
			return err
		}
		text := string(t.text)
		if !asJSON {
			text = t.view.page(out)
		}
		if _, err := fmt.Fprintln(out, strings.TrimSpace(text)); err != nil || once {
			return err
		}
		if !pause(ctx, topEvery) {
			return nil
		}
	}
}

// page returns all rules and keys as wide as the output.
func (v *topView) page(out io.Writer) string {
	width := wide
	if file, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	var lines []string
	for _, l := range v.lines(width, 0) {
		lines = append(lines, l.text)
	}
	return strings.Join(lines, "\n")
}

// pause waits, and reports whether the context goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// The sequences of a terminal that top uses.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the second screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTheTop    = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// clearTerminal returns what clears a terminal; an empty line ends the text before it in a file.
func clearTerminal(out io.Writer) string {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return toTheTop + eraseBelow
	}
	return "\n"
}

// run shows frames in a terminal until the user quits. The terminal is left as it was.
func (t *top) run(ctx context.Context, in, out *os.File) error {
	if err := t.fetch(ctx); err != nil {
		return err // before the screen changes
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("the terminal: %w; print one second with --once", err)
	}
	defer func() {
		_, _ = io.WriteString(out, leaveScreen) // the terminal may be gone
		_ = term.Restore(int(in.Fd()), before)
	}()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	keys := make(chan string)
	go readKeys(in, keys) // it ends with the program, in a read of the terminal
	const looks = 4       // at the size of the terminal, for each frame
	ticks := time.NewTicker(topEvery / looks)
	defer ticks.Stop()
	var shown string
	for n := 1; ; n++ {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return fmt.Errorf("the terminal: %w", err)
		}
		if text := screen(t.view.lines(width, height)); text != shown {
			shown = text // one write for each screen does not flicker
			if _, err := io.WriteString(out, text); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case key, open := <-keys:
			if !open || !t.view.press(key) {
				return nil
			}
			n = 0
		case <-ticks.C: // the size of the terminal may have changed
		}
		if n%looks != 0 {
			continue
		}
		t.view.trouble = ""
		if err := t.fetch(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.view.trouble = err.Error()
		}
	}
}

// screen returns the text that draws lines from the top of the screen on.
func screen(lines []topLine) string {
	var b bytes.Buffer
	b.WriteString(toTheTop)
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l.style + l.text + plain + eraseLine)
	}
	b.WriteString(eraseBelow)
	return b.String()
}

// readKeys sends the keys that the user presses. The arrows and Escape have names.
func readKeys(in io.Reader, keys chan<- string) {
	defer close(keys)
	b := make([]byte, 64)
	for {
		n, err := in.Read(b)
		if err != nil {
			return
		}
		text := string(b[:n])
		switch name := map[string]string{"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b": "esc"}[text]; {
		case name != "":
			keys <- name
		case text[0] != '\x1b': // it is not another key
			for _, r := range text {
				keys <- string(r)
			}
		}
	}
}
