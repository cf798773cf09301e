package app

import (
	"context"
	"encoding/json"
	"os"
	"strings"

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
const queryLive = "live "

// answer answers a question of another server.
func (a *App) answer(ctx context.Context, question string) []byte {
	rule, ok := strings.CutPrefix(question, queryLive)
	if !ok || !a.known(rule) {
		return nil
	}
	text, err := json.Marshal(a.live(ctx, rule))
	if err != nil {
		return nil // it is plain data
	}
	return text
}

// addPeers adds the other servers to a frame.
func (a *App) addPeers(ctx context.Context, rule string, l *wire.Live) {
	if a.peers == nil {
		return
	}
	self := a.peers.Self()
	l.Servers = []wire.Server{{Name: self.Name, Admin: self.Admin, Version: self.Version, StartedMS: self.StartedMS, State: wire.ServerThis}}
	answers, more, err := a.peers.Query(ctx, queryLive+rule)
	if l.MoreServers = more; err != nil {
		l.ServersUnknown = "the store does not answer"
	}
	for i := range answers {
		x := &answers[i]
		s := wire.Server{Name: x.Name, Admin: x.Admin, Version: x.Version, StartedMS: x.StartedMS, State: wire.ServerAnswers, SeenMS: x.Age.Milliseconds()}
		switch {
		case x.Silent():
			s.State = wire.ServerSilent
		case x.Text == nil:
			s.State = wire.ServerWaiting
		}
		l.Servers = append(l.Servers, s)
	}
}
