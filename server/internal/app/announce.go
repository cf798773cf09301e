package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluicehq/sluice/server/internal/describe"
)

// Announce prints where the server listens and, if rules are hybrid, the mode of each rule. For the quick start it also
// prints what to try.
func (a *App) Announce(w io.Writer, quickStart bool) error {
	var text strings.Builder
	if quickStart {
		a.announceQuickStart(&text)
	} else {
		for _, s := range a.servers.All() {
			// Scripts read the address up to the end of its line.
			fmt.Fprintf(&text, "%-6s %s\n", s.Name, s.URL())
			if more := s.Remark(s.Note()); more != "" {
				fmt.Fprintf(&text, "       %s\n", more)
			}
			if page := a.page(); s.Name == "admin" && page != "" {
				fmt.Fprintf(&text, "       what is limited now: %s\n", page)
			}
		}
		if a.engine.store.InRedis() {
			text.WriteString(describe.Modes(a.engine.decider.Policy().Rules()))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// page returns where a browser on this machine finds the page for operators; empty without one.
func (a *App) page() string {
	if at := a.URL("admin"); strings.HasPrefix(at, "http") {
		return at + "/ui/"
	}
	return ""
}

// URL returns where programs on this machine reach a listener; empty if it is off.
func (a *App) URL(name string) string {
	for _, s := range a.servers.All() {
		if s.Name == name {
			return s.LocalURL()
		}
	}
	return ""
}
