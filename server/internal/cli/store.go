package cli

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/store/remote"
)

// describeStore describes where a configuration keeps state, and what happens while the store does not answer.
// It is empty for a memory store whose state ends with the server.
func describeStore(f *config.File) string {
	r := f.Store.Redis
	if r == nil {
		if m := f.Store.Memory; m.File != "" {
			return fmt.Sprintf("store: memory, saved in %s; a crash loses up to %v", m.File, m.SaveEvery)
		}
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "store: Redis, %s", remote.Address(r))
	if r.TLS != (remote.TLS{}) {
		b.WriteString(", over TLS")
	}
	if r.User != "" {
		fmt.Fprintf(&b, ", as user %s", r.User)
	}
	if r.Database != 0 {
		fmt.Fprintf(&b, ", database %d", r.Database)
	}
	fmt.Fprintf(&b, "\nkeys begin with %q", r.Prefix)
	if r.HashKeys != nil {
		b.WriteString(" and are hashed")
	}
	fmt.Fprintf(&b, "\na decision waits at most %v for it; without an answer", r.Deadline)
	counts := map[sluice.Fallback]int{}
	for _, rule := range f.Rules {
		fallback := rule.OnStoreError
		if fallback == sluice.FallbackDefault {
			fallback = f.OnStoreError
		}
		counts[fallback]++
	}
	var parts []string
	for _, x := range []struct {
		fallback   sluice.Fallback
		one, other string
	}{
		{sluice.FallbackAllow, "lets pass", "let pass"},
		{sluice.FallbackLocal, "limits to " + r.Local.Share.String() + " in this process", "limit to " + r.Local.Share.String() + " in this process"},
		{sluice.FallbackDeny, "denies", "deny"},
	} {
		switch n := counts[x.fallback]; n {
		case 0:
		case 1:
			parts = append(parts, "1 rule "+x.one)
		default:
			parts = append(parts, fmt.Sprintf("%d rules %s", n, x.other))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing changes: there are no rules"}
	}
	return b.String() + " " + strings.Join(parts, ", ")
}
