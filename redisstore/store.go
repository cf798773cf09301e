package redisstore

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// Store keeps the state of limits in a Redis or Valkey server. It is safe for
// concurrent use, by any number of processes.
type Store struct {
	client  Client
	names   names
	cluster bool
	limits  limits
	clock   func() int64
	closed  atomic.Bool
	late    chan struct{} // holds one for each batch that is given back late
}

var _ sluice.Store = (*Store)(nil)

// New returns a store over a client. Most programs call that of package rueidisstore
// or goredisstore, which bring the client.
func New(c Client, o Options) (*Store, error) {
	if c == nil {
		return nil, errors.New("redisstore: New has no client; give one, or use package rueidisstore or goredisstore")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Store{
		client:  c,
		names:   names{prefix: o.Prefix, secret: bytes.Clone(o.Secret), tenant: o.Tenant},
		cluster: o.Cluster,
		clock:   o.Clock,
		late:    make(chan struct{}, maxLate),
	}, nil
}

// Close lets all methods return sluice.ErrClosed. It leaves the client and what the
// server holds as they are.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// stateKey returns where the state of a limit's key is kept.
func (s *Store) stateKey(l *limit, k sluice.Key) string { return s.names.stem(k) + l.state }

// banKey returns where its ban is kept: in the same slot.
func (s *Store) banKey(l *limit, k sluice.Key) string { return s.names.stem(k) + l.ban }

// Decide answers one request, by one call.
func (s *Store) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if err := r.Check(); err != nil {
		return sluice.Decision{}, err
	}
	if r.Ban != nil {
		var out [1]sluice.Decision
		r.Shadow = true // alone it is decided for itself
		err := s.decideSlot(ctx, []sluice.Request{r}, out[:])
		return out[0], err
	}
	l := s.limits.get(r.Limit)
	a := ask(&r)
	keys := [1]string{s.stateKey(l, r.Key)}
	args := [3]string{l.blob, "", ""}
	n := 2
	if r.Peek {
		args[2], n = "1", 3
	}
	sc := decideScripts[l.params.Kind]
	args[1] = question(&a, s.bounds(l))
	reply, err := s.run(ctx, sc, keys[:], args[:n])
	if now, ok := outside(err); ok {
		args[1] = question(&a, l.bounds(now))
		reply, err = s.run(ctx, sc, keys[:], args[:n])
	}
	if err != nil {
		return sluice.Decision{}, err
	}
	in := reader{rest: reply}
	a.Now = in.count()
	allowed := in.count() == 1
	if in.err != nil {
		return sluice.Decision{}, unknown(in.err)
	}
	d, err := l.answer(in.rest, &a, r.Peek)
	if err == nil && d.Allowed != allowed {
		err = errDisagree
	}
	if err != nil {
		return sluice.Decision{}, unknown(err)
	}
	return d, nil
}

// errDisagree reports a script whose verdict is not that of package algo.
var errDisagree = errors.New("redisstore: the server's verdict is not that of its state; do all programs that share the prefix use the same version?")

// unknown says of an error that the request may have been charged.
func unknown(err error) error { return errors.Join(sluice.ErrUnknownOutcome, err) }

// bounds returns the boundaries of a limit's calendar that are next to now, and to
// other times, as far as this computer's clock can tell.
func (s *Store) bounds(l *limit, others ...int64) []int64 {
	if !l.calendar() {
		return nil
	}
	return l.bounds(append(others, s.clock())...)
}

// outside returns the server's time, of an error that says that it lies beyond the
// bounds of a calendar that the script was given. It has done nothing then, and is
// called once more, with the bounds around that time.
func outside(err error) (now int64, ok bool) {
	var answer *ServerError
	if !errors.As(err, &answer) {
		return 0, false
	}
	_, text, ok := strings.Cut(answer.Text, "sluice-outside:")
	if !ok {
		return 0, false
	}
	if end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
		text = text[:end]
	}
	now, err = strconv.ParseInt(text, 10, 64)
	return now, err == nil
}

// ask puts a request in the terms of its algorithm, with numbers that the scripts compute exactly.
func ask(r *sluice.Request) algo.Request {
	a := translate.Request(r)
	a.MaxWait = min(a.MaxWait, exact-1)
	return a
}

// plain is the question of most requests: one unit, and nothing else.
var plain = encodeQuestion(&algo.Request{Cost: 1}, nil)

// question writes a request as the scripts read it.
func question(a *algo.Request, bounds []int64) string {
	if a.Cost == 1 && a.Floor == 0 && a.MaxWait == 0 && a.Member == 0 && bounds == nil {
		return plain
	}
	return encodeQuestion(a, bounds)
}

func encodeQuestion(a *algo.Request, bounds []int64) string {
	return string(appendQuestion(make([]byte, 0, 48), a, bounds))
}

func appendQuestion(b []byte, a *algo.Request, bounds []int64) []byte {
	b = appendInt(b, min(a.Cost, toomany))
	b = appendInt(b, min(a.Floor, toomany))
	b = appendInt(b, max(-1, min(a.MaxWait, exact-1)))
	b = appendMember(b, a.Member)
	for _, n := range bounds {
		b = appendInt(b, n)
	}
	return b
}

// appendMember appends what identifies a lease.
func appendMember(b []byte, member uint64) []byte {
	if member == 0 {
		return appendText(b, "")
	}
	var text [8]byte
	for i := range text {
		text[i] = byte(member >> (8 * i))
	}
	return appendText(b, string(text[:]))
}
