package app

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/server/internal/observe"
	"github.com/sluicehq/sluice/server/internal/observe/fleet"
	"github.com/sluicehq/sluice/server/internal/store"
	"github.com/sluicehq/sluice/server/internal/store/peers"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// self is this server, as operators of other servers see it.
func (a *App) self() peers.Server {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown" // the ID identifies it
	}
	return peers.Server{Name: name, Admin: a.URL("admin"), Version: a.o.Version, StartedMS: a.started.UnixMilli()}
}

// The first words of questions between servers. The rest is the rule; empty for all rules.
const (
	queryLive = "live"
	queryHour = "hour" // as the span
	queryDay  = "day"
	// queryKeys is about keys that were denied, and the values of keys unless Redis must not have them.
	queryKeys = "keys"
)

// answer answers a question of another server; nil if it cannot. A rule that only the other server has did nothing here.
func (a *App) answer(ctx context.Context, question string) []byte {
	kind, rule, _ := strings.Cut(question, " ")
	var answer any
	switch kind {
	case queryLive:
		answer = a.shared(ctx, rule)
	case queryHour, queryDay:
		answer = a.engine.decisions.HistoryOf(rule, kind)
	case queryKeys:
		answer = a.sharedKeys(ctx, rule)
	default:
		return nil
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil // it is plain data
	}
	return text
}

// shared returns what this server does, for others.
func (a *App) shared(ctx context.Context, rule string) *fleet.Part {
	s := &fleet.Part{Live: *a.live(ctx, rule), Share: share(a), RulesSum: a.rulesSum()}
	t := a.tables(rule)
	s.Denied, s.Allowed = t.Denied, t.Allowed
	now := map[string]*wire.LeftNow{}
	for i := range s.Keys {
		now[listed(s.Keys[i].Rule, s.Keys[i].Digest)] = s.Keys[i].Now
	}
	for i := range s.Denied.Keys {
		k := &s.Denied.Keys[i]
		k.Now = now[listed(k.Rule, k.Digest)]
	}
	s.Keys, s.Heavy, s.Bans, s.Reloads = nil, nil, nil, nil
	s.Hybrid = s.Hybrid[:min(len(s.Hybrid), fleet.MostRules)]
	return s
}

// keyTables are the counted keys of a server.
type keyTables struct {
	Denied, Allowed fleet.Table
	// Values are the values of keys, by rule and fingerprint.
	Values map[string][]string
}

// tables returns the counted keys of this server.
func (a *App) tables(rule string) *keyTables {
	t := &keyTables{Values: map[string][]string{}}
	table := func(s observe.Summary) fleet.Table {
		f := fleet.Table{Keys: make([]fleet.Key, len(s.Keys)), Missed: s.Missed}
		for i := range s.Keys {
			k := &s.Keys[i]
			if f.Keys[i] = (fleet.Key{DeniedKey: *k, ID: a.sharedID(k)}); k.Key != nil {
				t.Values[listed(k.Rule, k.Digest)] = k.Key
			}
			f.Keys[i].Key = nil
		}
		return f
	}
	d, w := a.engine.decisions.Summarize(a.engine.decider.Policy(), rule, fleet.MostKeys)
	t.Denied, t.Allowed = table(d), table(w)
	return t
}

// shown returns the keys that were denied, with their values.
func (t *keyTables) shown() *fleet.Table {
	for i := range t.Denied.Keys {
		k := &t.Denied.Keys[i]
		k.Key = t.Values[listed(k.Rule, k.Digest)]
	}
	return &t.Denied
}

// listed names a key in lists of keys: by its rule and its fingerprint.
func listed(rule, digest string) string { return rule + " " + digest }

// share returns this server's part of each limit.
func share(a *App) float64 {
	s := store.Share(a.reloads.inForce().Store.Redis)
	return float64(s.Of) / float64(s.Parts)
}

// rulesSum names the rules in force.
func (a *App) rulesSum() string {
	text, err := json.Marshal(a.rulesInWords().Rules)
	if err != nil {
		return "" // it is plain data
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// sharedID names a key for all servers. Nobody who lacks the secret of hash_keys can find the key by trying; without that secret, Redis
// has the keys as they are.
func (a *App) sharedID(k *wire.DeniedKey) string {
	h := hmac.New(sha256.New, a.engine.store.KeySecret())
	if k.Key == nil { // its text was not kept
		h.Write([]byte(a.peers.Self().ID + k.Digest))
	}
	text, err := json.Marshal(k.Key)
	if err != nil {
		return k.Digest // texts are always valid
	}
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// allHistory returns what a rule did on all servers.
func (a *App) allHistory(ctx context.Context, rule, span string) *wire.History {
	h := a.engine.decisions.HistoryOf(rule, span)
	if a.peers == nil {
		return h
	}
	answers, _ := a.peers.Wait(ctx, span+" "+rule) // after an error, the answers are the last ones
	for i := range answers {
		var other wire.History
		if answers[i].Text != nil && json.Unmarshal(answers[i].Text, &other) == nil {
			fleet.AddHistory(h, &other)
		}
	}
	return h
}

// sharedKeys returns the keys that this server denied most, for others: with values if Redis may have them, and otherwise with what is left for
// the first keys.
func (a *App) sharedKeys(ctx context.Context, rule string) *keyTables {
	t := a.tables(rule)
	shared, room := &keyTables{Denied: t.Denied, Values: map[string][]string{}}, mostValues
	secret := a.engine.store.KeySecret() != nil
	for i, k := range slices.Concat(t.Denied.Keys, t.Allowed.Keys) {
		k.Key = t.Values[listed(k.Rule, k.Digest)]
		for _, v := range k.Key {
			room -= len(v)
		}
		switch {
		case !secret && room >= 0 && k.Key != nil:
			shared.Values[listed(k.Rule, k.Digest)] = k.Key
		case secret && i < min(mostLiveKeys, len(t.Denied.Keys)):
			shared.Denied.Keys[i].Now = a.engine.api.LeftNow(ctx, &k.DeniedKey)
		}
	}
	return shared
}

// mostValues bounds the values of keys in an answer, in bytes.
const mostValues = 32 << 10

// keyOfPeers returns the values of a key that another server lists; nil if none gives it.
func (a *App) keyOfPeers(ctx context.Context, rule, digest string) []string {
	if a.peers == nil || a.engine.store.KeySecret() != nil {
		return nil
	}
	answers, _ := a.peers.Wait(ctx, queryKeys+" "+rule) // without Redis, the last answers are as good as any
	for i := range answers {
		var t keyTables
		if answers[i].Text != nil && json.Unmarshal(answers[i].Text, &t) == nil && t.Values[listed(rule, digest)] != nil {
			return t.Values[listed(rule, digest)]
		}
	}
	return nil
}

// deniedKeys returns the keys that the servers of the store denied lately, the latest denial first.
func (a *App) deniedKeys(ctx context.Context, rule string, most int) (list wire.Keys) {
	var others []peers.Answer
	if a.peers != nil {
		var err error
		if others, err = a.peers.Wait(ctx, queryKeys+" "+rule); err != nil {
			list.Missing = []string{"other servers"} // without Redis, the last answers are as good as any
		}
	}
	if len(others) == 0 {
		list.Keys, list.More = a.engine.decisions.DeniedKeys(a.engine.decider.Policy(), rule, most, true)
		return list
	}
	tables := []*fleet.Table{a.tables(rule).shown()}
	for i := range others {
		x := &others[i]
		t := new(keyTables)
		sound := x.Text != nil && json.Unmarshal(x.Text, t) == nil && len(t.Denied.Keys) <= fleet.MostKeys
		if !sound || x.Silent() {
			list.Missing = append(list.Missing, x.Name)
		}
		if !sound {
			continue
		}
		tables, list.Servers = append(tables, t.shown()), list.Servers+1
	}
	list.Keys = fleet.Keys(tables)
	slices.SortStableFunc(list.Keys, func(x, y wire.DeniedKey) int { return cmp.Compare(x.LastMS, y.LastMS) })
	if list.More = len(list.Keys) > most; list.More {
		list.Keys = list.Keys[:most]
	}
	return list
}

// addPeers adds the other servers to a frame, and their numbers if all are wanted.
func (a *App) addPeers(ctx context.Context, rule string, l *wire.Live, all bool) {
	if a.peers == nil {
		return
	}
	self := a.peers.Self()
	l.Servers = []wire.Server{{
		Name: self.Name, Admin: self.Admin, Version: self.Version, StartedMS: self.StartedMS, State: wire.ServerThis,
		NotReady: l.NotReady, Notes: l.Notes, Breaker: l.Store.Breaker,
	}}
	answers, more, err := a.peers.Query(ctx, queryLive+" "+rule)
	l.MoreServers = more
	switch {
	case errors.Is(err, peers.ErrBusy):
		l.ServersUnknown = "operators look at too many rules at once; close other pages"
	case err != nil:
		l.ServersUnknown = "the store does not answer"
	}
	sum, parts, counted := a.rulesSum(), []*fleet.Part{}, self.ID
	for i := range answers {
		x := &answers[i]
		s := wire.Server{Name: x.Name, Admin: x.Admin, Version: x.Version, StartedMS: x.StartedMS, State: wire.ServerAnswers, SeenMS: x.Age.Milliseconds()}
		if x.Silent() {
			s.State = wire.ServerSilent
		}
		part := new(fleet.Part)
		if x.Text == nil || json.Unmarshal(x.Text, part) != nil || !part.Sound() {
			if !x.Silent() {
				s.State = wire.ServerWaiting
			}
		} else {
			s.NotReady, s.Notes, s.Breaker, s.OtherRules = part.NotReady, part.Notes, part.Store.Breaker, part.RulesSum != sum
			parts, counted = append(parts, part), counted+" "+x.ID
		}
		l.Servers = append(l.Servers, s)
	}
	if all {
		l.Counted = counted
		a.merge(ctx, rule, l, parts)
	}
}

// merge adds the numbers of other servers to a frame of this one.
func (a *App) merge(ctx context.Context, rule string, l *wire.Live, parts []*fleet.Part) {
	own := share(a)
	for i := range l.Rules {
		l.Rules[i].Pressure *= own
	}
	for _, p := range parts {
		fleet.Add(l, p)
	}
	if more := len(l.Rules) - mostLiveRules; more > 0 {
		l.Rules, l.MoreRules = l.Rules[:mostLiveRules], l.MoreRules+more
	}
	t := a.tables(rule)
	deniedBy, allowedBy := []*fleet.Table{&t.Denied}, []*fleet.Table{&t.Allowed}
	for _, p := range parts {
		deniedBy, allowedBy = append(deniedBy, &p.Denied), append(allowedBy, &p.Allowed)
	}
	l.Heavy = observe.HeavyKeys(fleet.Keys(allowedBy), mostHeavyKeys)
	l.Keys = fleet.Keys(deniedBy)
	fleet.CountFreed(l.Rules, l.Keys)
	if l.MoreKeys = len(l.Keys) > mostLiveKeys; l.MoreKeys {
		l.Keys = l.Keys[:mostLiveKeys]
	}
	for i := range l.Keys {
		if k := &l.Keys[i]; t.Values[listed(k.Rule, k.Digest)] != nil {
			k.Key = t.Values[listed(k.Rule, k.Digest)]
			k.Now = a.engine.api.LeftNow(ctx, k)
			k.Key = nil
		}
	}
}
