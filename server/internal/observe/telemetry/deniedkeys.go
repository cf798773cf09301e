package telemetry

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

const (
	// mostDeniedKeys bounds the keys that DeniedKeys remembers. Their texts take up to 1 MiB.
	mostDeniedKeys = 4096
	// longestDeniedKey is the longest text of a key that is kept. A longer key is kept as its fingerprint.
	longestDeniedKey = 256
	// rememberDenied is how long a key is remembered after its last denial.
	rememberDenied = time.Hour
)

// DeniedKeys remembers the keys that this server denied lately, so that operators can list them. When it
// is full, the key whose last denial is the oldest gives way. It is safe for concurrent use.
type DeniedKeys struct {
	fingerprint func(sluice.Key) string
	now         func() time.Time

	mu    sync.Mutex
	byID  map[deniedID]*list.Element // of *DeniedKey
	order *list.List                 // the latest denial first
}

// deniedID identifies a key of a rule.
type deniedID struct {
	rule, digest string
	key          sluice.Key
}

// DeniedKey is a key of a rule that was denied.
type DeniedKey struct {
	Rule string
	// Key is the key; zero if its text was too long to be kept.
	Key sluice.Key
	// Digest is the fingerprint of the key, as in the log.
	Digest string
	// Limit, Role and Reason describe the last denial.
	Limit  string
	Role   policy.Role
	Reason sluice.Reason
	// Denials counts the denials since the key was first remembered, and Last is when the last one was.
	Denials uint64
	Last    time.Time
}

// NewDeniedKeys returns an empty DeniedKeys.
func NewDeniedKeys(fingerprint func(sluice.Key) string) *DeniedKeys {
	return &DeniedKeys{fingerprint: fingerprint, now: time.Now, byID: map[deniedID]*list.Element{}, order: list.New()}
}

// Observe remembers the keys that the limits of a verdict denied. Rules in shadow and advisory rules count
// too, with their Role.
func (d *DeniedKeys) Observe(v *policy.Verdict) {
	if v.Err != nil {
		return
	}
	for i := range v.Results {
		if m := &v.Results[i]; !m.Decision.Allowed && m.Listed == policy.NotListed && m.Role != policy.RoleCandidate {
			d.add(m)
		}
	}
}

func (d *DeniedKeys) add(m *policy.LimitResult) {
	id := deniedID{rule: m.Rule.Name, key: m.Request.Key}
	if len(id.key.Text()) > longestDeniedKey {
		id.digest, id.key = d.fingerprint(id.key), sluice.Key{}
	}
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.byID[id]
	if e == nil {
		// A part of a request's text would keep the whole text in memory.
		id.key = sluice.EncodedKey(strings.Clone(id.key.Text()), id.key.Len())
		e = d.order.PushFront(&DeniedKey{Rule: id.rule, Key: id.key, Digest: id.digest})
		d.byID[id] = e
	}
	k := e.Value.(*DeniedKey)
	k.Limit, k.Role, k.Reason, k.Last = m.Request.Limit.Name(), m.Role, m.Decision.Reason, now
	k.Denials++
	d.order.MoveToFront(e)
	d.forget(now)
}

// forget drops keys from the end of the order: keys beyond the bound, and a few old keys.
func (d *DeniedKeys) forget(now time.Time) {
	for range 4 {
		last := d.order.Back()
		if last == nil {
			return
		}
		k := last.Value.(*DeniedKey)
		if d.order.Len() <= mostDeniedKeys && now.Sub(k.Last) <= rememberDenied {
			return
		}
		delete(d.byID, deniedID{k.Rule, k.Digest, k.Key})
		d.order.Remove(last)
	}
}

// List returns up to most keys of a rule that were denied lately, the latest denial first. An empty
// rule means all rules. The result more reports whether there are more keys.
func (d *DeniedKeys) List(rule string, most int) (keys []DeniedKey, more bool) {
	now := d.now()
	d.mu.Lock()
	for e := d.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*DeniedKey)
		if now.Sub(k.Last) > rememberDenied {
			break
		}
		if rule != "" && k.Rule != rule {
			continue
		}
		if len(keys) == most {
			more = true
			break
		}
		keys = append(keys, *k)
	}
	d.mu.Unlock()
	for i := range keys {
		if keys[i].Digest == "" {
			keys[i].Digest = d.fingerprint(keys[i].Key)
		}
	}
	return keys, more
}
