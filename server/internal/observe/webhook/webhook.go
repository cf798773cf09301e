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
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
)

// Bounds and times of messages.
const (
	maxChanges = 100             // per message
	attempts   = 6               // per message
	firstPause = time.Second     // between attempts, doubled each time
	callTime   = 5 * time.Second // per attempt
)

// Options configure a Webhook.
type Options struct {
	// URL is where messages go. Logs show only its host. Required.
	URL string
	// Secret signs messages. Required.
	Secret string
	// Thresholds define high pressure. Above and Below are required.
	Thresholds
	// Every is how often a message is repeated while the pressure stays high. Default: never.
	Every time.Duration
	// Rules returns the names of the measured rules. Required.
	Rules func() []string
	// Pressure returns the pressure on a rule. Required.
	Pressure func(rule string) float64
	// Instance is the name of this process in messages.
	Instance string
	// Version is the version of the program, which the User-Agent names.
	Version string
	// Logger is the log of the program. Required.
	Logger *slog.Logger

	transport http.RoundTripper // for tests
}

// Webhook measures the pressure on rules, and sends messages. Call Run in a goroutine of its own.
type Webhook struct {
	o      Options
	key    []byte
	host   string
	look   time.Duration
	client *http.Client
	levels map[string]*level
	// sending is the only message that is being sent. Changes meanwhile go into the next message,
	// which has the latest state of each rule. So nothing queues up for a receiver that is away.
	sending *delivery

	delivered, givenUp, failed atomic.Uint64
}

// New returns a Webhook. Call Run to start it.
func New(o Options) (*Webhook, error) {
	key, err := keyOf(o.Secret)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	target, err := url.Parse(o.URL)
	switch {
	case err != nil, target.Scheme != "http" && target.Scheme != "https", target.Host == "", target.User != nil:
		return nil, errors.New("webhook: Options.URL is not an http or https URL without a user; write it as in https://ops.example.com/hooks/scale")
	case !(o.Above > 0) || math.IsInf(o.Above, 0) || !(o.Below > 0) || o.Below > o.Above:
		return nil, fmt.Errorf("webhook: Options.Above is %v and Below %v; give numbers above 0, and Below no more than Above", o.Above, o.Below)
	case o.For < 0 || o.Every < 0:
		return nil, fmt.Errorf("webhook: Options.For is %v and Every %v; give times of 0 or more", o.For, o.Every)
	}
	w := &Webhook{o: o, key: key, host: target.Host, levels: map[string]*level{}}
	// Measure ten times within For, so that the pressure must stay beyond the threshold all the
	// time.
	w.look = min(max(o.For/10, 100*time.Millisecond), time.Second)
	if w.o.transport == nil {
		w.o.transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 16 << 10,
			DisableKeepAlives: true, // messages are rare
		}
	}
	w.client = &http.Client{
		Transport: w.o.transport, Timeout: callTime,
		// A message is only for the host of the URL.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// Open returns the webhook of settings, nil without settings. The options have what the settings have not, except the
// instance.
func Open(f *Settings, o Options, metrics *telemetry.Metrics) (*Webhook, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // a nil Webhook sends nothing
	}
	var err error
	if o.Secret, err = f.Secret(); err != nil {
		return nil, err
	}
	o.Instance, _ = os.Hostname() // without one, the message has no instance
	if len(f.Rules) > 0 {
		o.Rules = func() []string { return f.Rules }
	}
	o.URL, o.Every, o.Thresholds = f.URL, f.Every, Thresholds{Above: float64(f.Above), Below: float64(f.Below), For: f.For}
	w, err := New(o)
	if err != nil {
		return nil, fmt.Errorf("scale_out.webhook: %w", err)
	}
	w.publish(metrics)
	return w, nil
}

// publish publishes the metrics of messages.
func (w *Webhook) publish(m *telemetry.Metrics) {
	m.Counters("sluice_webhook_messages_total", "Messages to the webhook by outcome, after all attempts.",
		"outcome", []string{"delivered", "given_up"}, func(outcome string) float64 {
			if outcome == "delivered" {
				return float64(w.delivered.Load())
			}
			return float64(w.givenUp.Load())
		})
	m.Counter("sluice_webhook_failed_attempts_total", "Failed attempts to send a message to the webhook.",
		func() float64 { return float64(w.failed.Load()) })
}

// Run measures and sends until ctx ends. It then gives up a message that is being sent. A nil Webhook sends nothing.
func (w *Webhook) Run(ctx context.Context) {
	if w == nil {
		return
	}
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

// measure reads the pressure on all rules.
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
		case !l.sent:
			delete(w.levels, name)
		case l.high: // a rule that is gone has no pressure
			l.last = 0
			l.set(now, false)
		}
	}
}

// compose makes a message if a state has changed.
func (w *Webhook) compose(now time.Time) {
	m := Message{Type: Type, Timestamp: now.UTC(), Data: Data{Instance: w.o.Instance}}
	for _, name := range slices.Sorted(maps.Keys(w.levels)) {
		l := w.levels[name]
		again := l.high && l.sent && w.o.Every > 0 && now.Sub(l.reminded) >= w.o.Every
		if l.high == l.sent && !again {
			continue
		}
		state := Below
		if l.high {
			state = Above
		}
		m.Data.Changes = append(m.Data.Changes, Change{Rule: name, State: state, Pressure: finite(l.last), Since: l.changed.UTC(), Reminder: again})
		l.sent, l.reminded = l.high, now
		if len(m.Data.Changes) == maxChanges {
			break
		}
	}
	if len(m.Data.Changes) == 0 {
		return
	}
	d, err := newDelivery(&m, now)
	if err != nil {
		w.o.Logger.Error("a webhook message could not be encoded", "error", err)
		return
	}
	w.sending = d
}

// finite bounds a number to what JSON can hold.
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
		w.o.Logger.Info("a webhook message was delivered", "host", w.host, "id", d.id, "changes", d.rules, "attempts", d.attempts)
	case d.attempts == attempts:
		w.failed.Add(1)
		w.givenUp.Add(1)
		w.sending = nil
		w.o.Logger.Error("a webhook message was given up", "host", w.host, "id", d.id, "changes", d.rules, "attempts", d.attempts, "error", err)
	default:
		w.failed.Add(1)
		pause := firstPause << (d.attempts - 1)
		// Other processes send to the same receiver, so the pauses differ.
		pause += rand.N(pause / 4)
		d.next = time.Now().Add(pause)
		w.o.Logger.Warn("a webhook message was not accepted; it is sent again", "host", w.host, "id", d.id, "after", pause.Round(time.Millisecond), "error", err)
	}
}

// post sends the message once. Errors do not contain the URL, which may be secret.
func (w *Webhook) post(ctx context.Context, d *delivery) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(d.body))
	if err != nil {
		return errors.New("webhook: the URL is not valid")
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
	_ = res.Body.Close() // the body is not used
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("webhook: the receiver answered %d; it must answer 200 to 299", res.StatusCode)
	}
	return nil
}

// Thresholds define when the pressure on a rule is high. Between the two thresholds a rule keeps
// its state. So a pressure that swings around one threshold changes the state once.
type Thresholds struct {
	// A pressure of Above or more is high; a pressure less than Below no longer is.
	Above, Below float64
	// For is how long the pressure must stay beyond a threshold to change the state.
	For time.Duration
}

// level is whether the pressure on one rule is high.
type level struct {
	high    bool
	changed time.Time
	since   time.Time // when the pressure crossed the other threshold; zero if it has not
	last    float64

	sent     bool // the state in the last message
	reminded time.Time
}

// look updates the level with the current pressure.
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
