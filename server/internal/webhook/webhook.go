package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// How messages are sent.
const (
	maxChanges = 100             // in one message
	attempts   = 6               // of one message
	firstPause = time.Second     // between attempts, doubled each time
	callTime   = 5 * time.Second // for one attempt
)

// Options are what a Webhook is made from.
type Options struct {
	// URL is where messages go. Logs show its host alone. Required.
	URL string
	// Secret signs messages. Required.
	Secret string
	// Thresholds say when pressure is high. Above and Below are required.
	Thresholds
	// Every is how often a pressure that stays high is told again. Default: never.
	Every time.Duration
	// Rules returns the names of the rules to look at. Required.
	Rules func() []string
	// Pressure returns the pressure on a rule. Required.
	Pressure func(rule string) float64
	// Instance names this process to the receiver.
	Instance string
	// Version is the program's, for the User-Agent.
	Version string
	// Logger is the program's log. Required.
	Logger *slog.Logger

	transport http.RoundTripper // for tests
}

// Stats are how messages went.
type Stats struct {
	// Delivered and GivenUp are messages; Failed are attempts.
	Delivered, GivenUp, Failed uint64
}

// Webhook looks at the pressure on rules, and sends messages. Run does all of it, in its
// own goroutine; Stats is safe for concurrent use.
type Webhook struct {
	o      Options
	key    []byte
	host   string
	look   time.Duration
	client *http.Client
	levels map[string]*level
	// sending is the one message on its way. What changes meanwhile is for the next one,
	// of each rule the latest, so that nothing queues up for a receiver that is away.
	sending *delivery

	delivered, givenUp, failed atomic.Uint64
}

// New returns a Webhook that does not run yet.
func New(o Options) (*Webhook, error) {
	key, err := keyOf(o.Secret)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(o.URL)
	switch {
	case err != nil, target.Scheme != "http" && target.Scheme != "https", target.Host == "", target.User != nil:
		return nil, errors.New("webhook: Options.URL is no http or https URL without a user; write it as in https://ops.example.com/hooks/scale")
	case !(o.Above > 0) || math.IsInf(o.Above, 0) || !(o.Below > 0) || o.Below > o.Above:
		return nil, fmt.Errorf("webhook: Options.Above is %v and Below %v; give numbers above 0, and Below no more than Above", o.Above, o.Below)
	case o.For < 0 || o.Every < 0:
		return nil, fmt.Errorf("webhook: Options.For is %v and Every %v; give times of 0 or more", o.For, o.Every)
	}
	w := &Webhook{o: o, key: key, host: target.Host, levels: map[string]*level{}}
	// Ten looks, for what is asked for to be there all the time.
	w.look = min(max(o.For/10, 100*time.Millisecond), time.Second)
	if w.o.transport == nil {
		w.o.transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 16 << 10,
			DisableKeepAlives: true, // messages are rare
		}
	}
	w.client = &http.Client{
		Transport: w.o.transport, Timeout: callTime,
		// A message is for whom the operator has named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// Stats returns how messages went.
func (w *Webhook) Stats() Stats {
	return Stats{Delivered: w.delivered.Load(), GivenUp: w.givenUp.Load(), Failed: w.failed.Load()}
}

// Run looks and sends until ctx ends. A message that is on its way then is given up.
func (w *Webhook) Run(ctx context.Context) {
	tick := time.NewTicker(w.look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		w.measure(now)
		if w.sending == nil {
			w.compose(now)
		}
		if w.sending != nil && !now.Before(w.sending.next) {
			w.send(ctx)
		}
	}
}

// measure looks at all rules.
func (w *Webhook) measure(now time.Time) {
	rules := w.o.Rules()
	for _, name := range rules {
		l := w.levels[name]
		if l == nil {
			l = &level{}
			w.levels[name] = l
		}
		l.look(now, w.o.Pressure(name), w.o.Thresholds)
	}
	if len(w.levels) <= len(rules) {
		return
	}
	known := make(map[string]bool, len(rules))
	for _, name := range rules {
		known[name] = true
	}
	for name, l := range w.levels {
		switch {
		case known[name]:
		case !l.told:
			delete(w.levels, name)
		case l.high: // nobody will ask for a rule that is gone
			l.last = 0
			l.set(now, false)
		}
	}
}

// compose makes a message if there is anything to tell.
func (w *Webhook) compose(now time.Time) {
	m := Message{Type: Type, Timestamp: now.UTC(), Data: Data{Instance: w.o.Instance}}
	for _, name := range slices.Sorted(maps.Keys(w.levels)) {
		l := w.levels[name]
		again := l.high && l.told && w.o.Every > 0 && now.Sub(l.reminded) >= w.o.Every
		if l.high == l.told && !again {
			continue
		}
		state := Below
		if l.high {
			state = Above
		}
		m.Data.Changes = append(m.Data.Changes, Change{Rule: name, State: state, Pressure: finite(l.last), Since: l.changed.UTC(), Reminder: again})
		l.told, l.reminded = l.high, now
		if len(m.Data.Changes) == maxChanges {
			break
		}
	}
	if len(m.Data.Changes) == 0 {
		return
	}
	d, err := newDelivery(&m, now)
	if err != nil {
		w.o.Logger.Error("a webhook's message could not be written", "error", err)
		return
	}
	w.sending = d
}

// finite makes a number one that JSON can hold.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, 0), math.MaxFloat64)
}

// send tries to deliver the message.
func (w *Webhook) send(ctx context.Context) {
	d := w.sending
	err := w.post(ctx, d)
	if ctx.Err() != nil {
		return
	}
	d.attempts++
	switch {
	case err == nil:
		w.delivered.Add(1)
		w.sending = nil
		w.o.Logger.Info("a webhook was told of the pressure on rules", "host", w.host, "id", d.id, "changes", d.rules, "attempts", d.attempts)
	case d.attempts == attempts:
		w.failed.Add(1)
		w.givenUp.Add(1)
		w.sending = nil
		w.o.Logger.Error("a webhook was not told of the pressure on rules", "host", w.host, "id", d.id, "changes", d.rules, "attempts", d.attempts, "error", err)
	default:
		w.failed.Add(1)
		pause := firstPause << (d.attempts - 1)
		// Other processes met the same receiver.
		pause += rand.N(pause / 4)
		d.next = time.Now().Add(pause)
		w.o.Logger.Warn("a webhook did not take a message; it is tried again", "host", w.host, "id", d.id, "after", pause.Round(time.Millisecond), "error", err)
	}
}

// post sends it once. Errors do not hold the URL, which may be a secret.
func (w *Webhook) post(ctx context.Context, d *delivery) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(d.body))
	if err != nil {
		return errors.New("webhook: the URL cannot be asked")
	}
	at := timestamp(time.Now())
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "sluice/"+w.o.Version)
	q.Header.Set(headerID, d.id)
	q.Header.Set(headerTimestamp, at)
	q.Header.Set(headerSignature, sign(w.key, d.id, at, d.body))
	res, err := w.client.Do(q)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return err
	}
	_ = res.Body.Close() // it is not read
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("webhook: the receiver answered %d; it is to answer 200 to 299", res.StatusCode)
	}
	return nil
}

// Thresholds say when the pressure on a rule is high. Between the two it stays what it was,
// so that a pressure that swings around one of them is told once.
type Thresholds struct {
	// Above is the pressure from which it is high; Below that under which it is no longer so.
	Above, Below float64
	// For is how long it must be there to count.
	For time.Duration
}

// level is whether the pressure on one rule is high.
type level struct {
	high    bool
	changed time.Time
	since   time.Time // when the pressure began to ask for a change; zero if it does not
	last    float64

	told     bool // what the last message said
	reminded time.Time
}

// look takes in the pressure that there is now.
func (l *level) look(now time.Time, pressure float64, t Thresholds) {
	l.last = pressure
	asks := pressure >= t.Above
	if l.high {
		asks = pressure < t.Below
	}
	switch {
	case !asks:
		l.since = time.Time{}
		return
	case l.since.IsZero() || now.Before(l.since):
		l.since = now
	}
	if now.Sub(l.since) >= t.For {
		l.set(now, !l.high)
	}
}

func (l *level) set(now time.Time, high bool) {
	l.high, l.changed, l.since = high, now, time.Time{}
}
