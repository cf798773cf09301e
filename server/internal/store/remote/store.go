package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// Times for connecting to the store.
const (
	// firstPatience is how long the server waits for the store at its start.
	firstPatience = 3 * time.Second
	// connectPatience is how long a later attempt to connect may take.
	connectPatience = 5 * time.Second
)

// Store is the store in Redis: a connection that may be lost, and a guard that decides by fallbacks
// while it is lost. Make it with Open, and end it with Close.
type Store struct {
	file    *Settings
	options redisstore.Options
	logger  *slog.Logger

	dialed atomic.Value // the address of the last attempt to connect, a string
	remote calls
	denies atomic.Bool   // all rules deny while the store does not decide
	local  *memory.Store // nil if the configuration has no local share
	hybrid *hybrid.Store // over remote
	guard  *guard.Store  // over hybrid
	health health

	stop    context.CancelFunc // ends the watch
	watched chan struct{}      // closed when the watch has ended
	once    sync.Once
	// These belong to the client; connect sets them.
	cut  context.CancelFunc
	conn *rueidisstore.Client
}

// Open makes the store. It waits firstPatience for the first connection. A server that starts while its store is down
// starts degraded, and keeps trying. A configuration that can never work is an error. The function failed is called
// with an error that concerns only one key. The store needs SetPolicy before it decides.
func Open(ctx context.Context, f *Settings, logger *slog.Logger, metrics *telemetry.Metrics, failed func(error)) (*Store, error) {
	r, err := prepareRedis(f, logger)
	if err != nil {
		return nil, err
	}
	r.remote.observe = metrics.Histogram("sluice_store_call_duration_seconds", "Duration of calls of the store, whatever their outcome.")
	r.remote.foreign = failed
	// A reload may bring the first rule that limits locally. Until then, the local store is empty.
	r.local, err = memory.New(memory.Options{MaxBytes: int64(r.file.Local.MaxSize)})
	if err != nil {
		return nil, fmt.Errorf("store.redis.local: %w", err)
	}
	if r.hybrid, err = hybrid.New(&r.remote, hybrid.Options{}); err != nil {
		r.Close()
		return nil, err
	}
	o := guard.Options{
		Store:       r.hybrid,
		Deadline:    r.file.Deadline,
		MaxInFlight: r.file.InFlight,
		Default:     sluice.FallbackAllow,
		Inline:      true, // rueidisstore returns when the context ends, and so does the hybrid store
		OnTransition: func(_, to guard.State, why error) {
			switch to {
			case guard.StateClosed:
				if r.guard.State() == guard.StateClosed { // for all nodes of a cluster
					r.health.mend(tripped)
				}
			case guard.StateOpen:
				r.health.worsen(tripped, why)
			case guard.StateHalfOpen: // probing
			}
			logger.Debug("the store's breaker moved", "to", to, "error", why)
		},
	}
	o.Local = r.local
	if s := r.file.Local.Share; s != (reader.Share{}) {
		o.Share = sluice.Share(s)
	}
	if r.guard, err = guard.New(o); err != nil {
		r.Close()
		return nil, err
	}
	if _, err := r.connect(ctx, firstPatience); err != nil {
		err = r.diagnose(ctx, err)
		if hopeless(err) {
			r.Close()
			return nil, err
		}
		r.remote.miss(err)
		r.health.worsen(unconnected, err)
	}
	life, stop := context.WithCancel(ctx)
	r.stop = stop
	go r.watch(life)
	r.publish(metrics)
	return r, nil
}

// prepareRedis makes a store without a connection and without a guard.
func prepareRedis(f *Settings, logger *slog.Logger) (*Store, error) {
	r := &Store{file: f, logger: logger, watched: make(chan struct{}), health: health{logger: logger}}
	r.remote.observe = func(time.Duration) {}
	_, err := clientOptions(f)
	if err != nil {
		return nil, err
	}
	if r.options, err = storeOptions(f); err != nil {
		return nil, err
	}
	return r, nil
}

// SetPolicy takes the fallbacks from a policy. It may be called while the store is in use: decisions of the
// earlier policy find their limits in the new one by name.
func (r *Store) SetPolicy(p *policy.Policy) {
	rules := p.Rules()
	r.denies.Store(len(rules) > 0 && !slices.ContainsFunc(rules, func(x *policy.Rule) bool { return x.OnStoreError != sluice.FallbackDeny }))
	r.guard.SetFallback(p.Fallback)
}

// SetShare takes the share of the local fallback from a configuration that is reloaded. Without one, no rule limits
// locally, and the previous share has no effect.
func (r *Store) SetShare(s reader.Share) error {
	if s == (reader.Share{}) {
		return nil
	}
	return r.guard.SetShare(sluice.Share(s))
}

// connect makes a client from the current secrets and certificates, checks the server, and sends
// decisions there from now on. Only one connect runs at a time.
func (r *Store) connect(ctx context.Context, patience time.Duration) (redisstore.Report, error) {
	var report redisstore.Report
	o, err := clientOptions(r.file)
	if err != nil {
		return report, err
	}
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	// The time limits of the client do not end with the context.
	defer context.AfterFunc(ctx, cut)()
	late := time.AfterFunc(patience, cut)
	defer late.Stop()
	network := "tcp"
	if r.file.Socket != "" {
		network = "unix"
	}
	o.DialCtxFn = dialer(life, network, func(address string) { r.dialed.Store(address) })
	client, err := rueidisstore.NewClient(o)
	var store *redisstore.Store
	if err == nil {
		store, err = r.open(client)
	}
	if err == nil {
		checking, cancel := context.WithTimeout(life, patience)
		report, err = store.Check(checking)
		cancel()
	}
	if err == nil && !late.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		if life.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer within %v: %w: %w", patience, context.DeadlineExceeded, err)
		}
		cut()
		if client != nil {
			_ = client.Close()
		}
		return report, r.explain(err)
	}
	r.remote.to.Store(store)
	r.disconnect()
	r.cut, r.conn = cut, client
	r.logger.Info("connected to the store", "server", report.Server, "at", r.address())
	for _, w := range report.Warnings {
		r.logger.Warn("the store will not always work: " + w)
	}
	return report, nil
}

// disconnect ends the connections of the client, if there is a client.
func (r *Store) disconnect() {
	if r.conn != nil {
		r.cut() // a call that hangs would block Close
		_ = r.conn.Close()
	}
}

// open makes a store over a client, after checking that the client matches the configuration.
func (r *Store) open(c *rueidisstore.Client) (*redisstore.Store, error) {
	if r.file.Cluster && !c.Cluster() {
		return nil, &misfitError{errors.New("the server is not a node of a cluster; remove cluster: true")}
	}
	o := r.options
	o.Cluster = c.Cluster()
	s, err := redisstore.New(c, o)
	if err != nil {
		return nil, &misfitError{err} // an error of the settings
	}
	return s, nil
}

// explain adds the setting that caused an error.
func (r *Store) explain(err error) error {
	switch {
	case strings.Contains(err.Error(), "is a node of a cluster"):
		err = fmt.Errorf("%w: set cluster: true", err)
	case strings.Contains(replied(err), noMaster):
		err = fmt.Errorf("the sentinels know no master called %q; give the name that sentinel.conf has: %w", r.file.Sentinel.Master, err)
	case strings.Contains(replied(err), "cluster support disabled"):
		err = fmt.Errorf("the servers are not nodes of a cluster; remove cluster: true: %w", err)
	}
	return fmt.Errorf("store.redis: %s: %w", r.address(), err)
}

// address describes the server.
func (r *Store) address() string { return Address(r.file) }

// Close ends the connections.
func (r *Store) Close() {
	r.once.Do(func() {
		if r.stop != nil {
			r.stop()
			<-r.watched
		}
		if r.hybrid != nil {
			_ = r.hybrid.Close() // it has nothing to write
		}
		r.disconnect()
		if r.local != nil {
			_ = r.local.Close() // memory has nothing to write
		}
	})
}

// ErrDenies is why a server is not ready.
var ErrDenies = errors.New("the store does not decide, and every rule denies then")

// Ready returns why this server should get no requests; nil if it should. A store that is down is not a reason
// while rules decide without it, because the other servers have lost it too. But a server whose rules all deny
// should get no requests.
func (r *Store) Ready() error {
	if failing, of := r.lost(); r.denies.Load() && r.health.trouble() != nil && failing == of {
		return ErrDenies
	}
	return nil
}

// lost returns how many nodes of the store do not decide while there is trouble, and of how many.
func (r *Store) lost() (failing, of int) {
	st := r.guard.Stats()
	if st.Failing == 0 {
		return st.Shards, st.Shards // for another reason
	}
	return st.Failing, st.Shards
}

// Status describes the state of the store in a line. It contains no address, because anybody who reaches the
// probes can read it.
func (r *Store) Status() string {
	t := r.health.trouble()
	if t == nil {
		return "store: ok"
	}
	where := ""
	if failing, of := r.lost(); failing < of {
		where = fmt.Sprintf(" for the keys of %d of %d nodes", failing, of)
	}
	return fmt.Sprintf("store: degraded since %s, rules answer by on_store_error%s; %s", t.since.UTC().Format(time.RFC3339), where, reason(t.why))
}

// reason describes an error in a few words.
func reason(err error) string {
	var dial *net.OpError
	switch text := replied(err); {
	case text != "":
		return "it replies " + firstWord(text)
	case errors.Is(err, guard.ErrSlow):
		return "it is slow"
	case errors.Is(err, guard.ErrLate), errors.Is(err, context.DeadlineExceeded):
		return "it does not answer in time"
	case errors.Is(err, redisstore.ErrNotSent), errors.As(err, &dial) && dial.Op == "dial":
		return "it cannot be reached"
	default:
		return "calls of it fail; see the log"
	}
}

// firstWord is the kind of an error reply, such as LOADING.
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word[:min(len(word), 32)]
}

// Records returns the records of a space, which all servers of the store share. Calls fail until there is a connection.
func (r *Store) Records(space string) records { //nolint:revive // it implements interfaces of its users
	return records{&r.remote, space, r.file.Deadline}
}

// KeySecret is the secret of hash_keys; nil if Redis has the keys of clients as they are.
func (r *Store) KeySecret() []byte { return r.options.Secret }

// Guard returns the store that decides, by fallbacks while Redis does not.
func (r *Store) Guard() *guard.Store { return r.guard }

// Hybrid returns the store below the guard, which decides on granted units.
func (r *Store) Hybrid() *hybrid.Store { return r.hybrid }

// Local returns the store of the local fallback.
func (r *Store) Local() *memory.Store { return r.local }
