package app

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	name, _ := os.Hostname() // the ID identifies it without a name
	return peers.Server{Name: cmp.Or(name, "unknown"), Admin: a.URL("admin"), Version: a.o.Version, StartedMS: a.started.UnixMilli()}
}

// The first words of questions between servers. The rest is the rule; empty for all rules.
const (
	queryLive = "live"
	queryHour = "hour" // as the span
	queryDay  = "day"
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
	default:
		return nil
	}
	text, _ := json.Marshal(answer) // nil after an error: the other server gets none then
	return text
}

// wait returns the answers of the other servers to a question; none without Redis. After an error they are the last
// ones, which are as good as any.
func (a *App) wait(ctx context.Context, kind, rule string) ([]peers.Answer, error) {
	if a.peers == nil {
		return nil, nil
	}
	return a.peers.Wait(ctx, kind+" "+rule)
}

// partsOf returns what servers answered to queryLive; nil for a server without an answer that can be used.
func partsOf(answers []peers.Answer) []*fleet.Part {
	parts := make([]*fleet.Part, len(answers))
	for i := range answers {
		p := new(fleet.Part)
		if answers[i].Text != nil && json.Unmarshal(answers[i].Text, p) == nil && p.Sound() {
			parts[i] = p
		}
	}
	return parts
}

// mostValues bounds the values of keys in an answer, in bytes.
const mostValues = 32 << 10

// shared returns what this server does, for others: with values of keys only if Redis may have them.
func (a *App) shared(ctx context.Context, rule string) *fleet.Part {
	s := a.counted(rule)
	s.Live, s.Share, s.RulesSum = *a.live(ctx, rule), share(a), a.rulesSum()
	room := mostValues
	for kind := range s.Tables {
		for i := range s.Tables[kind].Keys {
			k := &s.Tables[kind].Keys[i]
			if j := slices.IndexFunc(s.Keys, func(x wire.DeniedKey) bool { return x.Rule == k.Rule && x.Digest == k.Digest }); j >= 0 {
				k.Now = s.Keys[j].Now
			}
			for _, v := range k.Key {
				room -= len(v)
			}
			if room < 0 || a.engine.store.KeySecret() != nil {
				k.Key = nil
			}
		}
	}
	s.Keys, s.Heavy, s.Bans, s.Reloads = nil, nil, nil, nil
	s.Hybrid = s.Hybrid[:min(len(s.Hybrid), fleet.MostRules)]
	return s
}

// counted returns the keys that this server counted, with their values.
func (a *App) counted(rule string) *fleet.Part {
	c := new(fleet.Part)
	denied, newly, allowed := a.engine.decisions.Summarize(a.engine.decider.Policy(), rule, fleet.MostKeys)
	for kind, s := range [...]observe.Summary{fleet.Denied: denied, fleet.Newly: newly, fleet.Allowed: allowed} {
		t := &c.Tables[kind]
		t.Missed = s.Missed
		for _, k := range s.Keys {
			t.Keys = append(t.Keys, fleet.Key{DeniedKey: k, ID: a.sharedID(&k)})
		}
	}
	return c
}

// share returns this server's part of each limit.
func share(a *App) float64 {
	s := store.Share(a.reloads.inForce().Store.Redis)
	return float64(s.Of) / float64(s.Parts)
}

// rulesSum names the rules in force.
func (a *App) rulesSum() string {
	text, _ := json.Marshal(a.rulesInWords().Rules) // it is plain data
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// sharedID names a key for all servers. Nobody who lacks the secret of hash_keys can find the key by trying; without
// that secret, Redis has the keys as they are.
func (a *App) sharedID(k *wire.DeniedKey) string {
	h := hmac.New(sha256.New, a.engine.store.KeySecret())
	if k.Key == nil { // its text was not kept
		h.Write([]byte(a.peers.Self().ID + k.Digest))
	}
	fmt.Fprintf(h, "%q", k.Key)
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// history returns what a rule did on this server, or on all servers.
func (a *App) history(ctx context.Context, rule, span string, all bool) *wire.History {
	h := a.engine.decisions.HistoryOf(rule, span)
	if !all {
		return h
	}
	answers, _ := a.wait(ctx, span, rule)
	for i := range answers {
		var other wire.History
		if answers[i].Text != nil && json.Unmarshal(answers[i].Text, &other) == nil {
			fleet.AddHistory(h, &other)
		}
	}
	return h
}

// keyOfPeers returns the values of a key that another server lists; nil if none gives it.
func (a *App) keyOfPeers(ctx context.Context, rule, digest string) []string {
	answers, _ := a.wait(ctx, queryLive, rule)
	for _, p := range partsOf(answers) {
		if p == nil {
			continue
		}
		for _, k := range slices.Concat(p.Tables[fleet.Denied].Keys, p.Tables[fleet.Newly].Keys, p.Tables[fleet.Allowed].Keys) {
			if k.Rule == rule && k.Digest == digest && k.Key != nil {
				return k.Key
			}
		}
	}
	return nil
}

// deniedKeys returns the keys that the servers of the store denied lately, or only candidates, the latest denial first.
func (a *App) deniedKeys(ctx context.Context, rule string, most int) (list wire.Keys) {
	others, err := a.wait(ctx, queryLive, rule)
	if err != nil {
		list.Missing = []string{"other servers"}
	}
	if len(others) == 0 {
		list.Keys, list.More = a.engine.decisions.DeniedKeys(a.engine.decider.Policy(), rule, most)
		return list
	}
	parts := []*fleet.Part{a.counted(rule)}
	for i, p := range partsOf(others) {
		if p == nil || others[i].Silent() {
			list.Missing = append(list.Missing, others[i].Name)
		}
		if p != nil {
			parts, list.Servers = append(parts, p), list.Servers+1
		}
	}
	list.Keys = append(fleet.Keys(parts, fleet.Denied), fleet.Keys(parts, fleet.Newly)...)
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
	for i, part := range partsOf(answers) {
		x := &answers[i]
		s := wire.Server{Name: x.Name, Admin: x.Admin, Version: x.Version, StartedMS: x.StartedMS, State: wire.ServerAnswers, SeenMS: x.Age.Milliseconds()}
		if x.Silent() {
			s.State = wire.ServerSilent
		}
		switch {
		case part != nil:
			s.NotReady, s.Notes, s.Breaker, s.OtherRules = part.NotReady, part.Notes, part.Store.Breaker, part.RulesSum != sum
			parts, counted = append(parts, part), counted+" "+x.ID
		case !x.Silent():
			s.State = wire.ServerWaiting
		}
		l.Servers = append(l.Servers, s)
	}
	if all {
		l.Counted = counted
		a.merge(ctx, rule, l, parts)
	}
}

// merge adds the numbers of other servers to a frame of this one.
func (a *App) merge(ctx context.Context, rule string, l *wire.Live, others []*fleet.Part) {
	fleet.Add(l, share(a), others)
	if more := len(l.Rules) - mostLiveRules; more > 0 {
		l.Rules, l.MoreRules = l.Rules[:mostLiveRules], l.MoreRules+more
	}
	all := append([]*fleet.Part{a.counted(rule)}, others...)
	l.Heavy = observe.HeavyKeys(fleet.Keys(all, fleet.Allowed), mostHeavyKeys)
	l.Keys = fleet.Keys(all, fleet.Denied)
	fleet.CountFreed(l.Rules, l.Keys)
	if l.MoreKeys = len(l.Keys) > mostLiveKeys; l.MoreKeys {
		l.Keys = l.Keys[:mostLiveKeys]
	}
	newly := fleet.Keys(all, fleet.Newly)
	l.Keys = append(l.Keys, newly[:min(len(newly), mostNewlyKeys)]...)
	a.mask(ctx, l.Keys)
}
