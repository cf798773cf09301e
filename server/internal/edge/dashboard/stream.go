package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

const (
	// mostStreams bounds the pages that are open at once.
	mostStreams = 64
	// mostReaders bounds the pages of callers that may only read, so that operators have some.
	mostReaders = 48
	// each is the time between two frames of a stream.
	each = time.Second
	// fresh is how long a frame is given to other streams. It is less than each, so that no stream gets a frame twice.
	fresh = 900 * time.Millisecond
	// unread is how long a client may read nothing before its stream ends.
	unread = 5 * time.Second
)

// frames are the latest answers of Live as JSON, by rule.
type frames struct {
	make func(ctx context.Context, rule string, all bool) *wire.Live

	mu sync.Mutex
	of map[view]*frame
}

// view is what a stream shows.
type view struct {
	rule string
	all  bool // servers
}

// frame is an answer that several streams share.
type frame struct {
	wanted time.Time // last; frames.mu guards it

	mu   sync.Mutex // held while the frame is made
	at   time.Time
	text []byte // never changed, but replaced
}

// get returns a frame that is fresh. The rule is a known one, so the frames are bounded.
func (f *frames) get(ctx context.Context, v view) ([]byte, error) {
	now := time.Now()
	f.mu.Lock()
	maps.DeleteFunc(f.of, func(_ view, old *frame) bool { return now.Sub(old.wanted) > time.Minute }) // nobody looks at it
	one := f.of[v]
	if one == nil {
		one = new(frame)
		f.of[v] = one
	}
	one.wanted = now
	f.mu.Unlock()

	one.mu.Lock()
	defer one.mu.Unlock()
	if one.text != nil && time.Since(one.at) < fresh {
		return one.text, nil
	}
	// A client that leaves must not end the work for others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), each/2)
	defer cancel()
	text, err := json.Marshal(f.make(ctx, v.rule, v.all))
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	one.at, one.text = time.Now(), text
	return text, nil
}

// live answers with what the server does now: once, or each second to a client that accepts server-sent events.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) *wire.Problem {
	values, p := d.query(r, "rule", "servers")
	if p != nil {
		return p
	}
	v := view{values["rule"], values["servers"] == allServers}
	text, err := d.frames.get(r.Context(), v)
	if err != nil {
		return &wire.Problem{Status: http.StatusInternalServerError, Title: "No answer", Detail: err.Error()}
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, "%s\n", text) // the client may be gone
		return nil
	}
	rooms := []chan struct{}{d.readers, d.streams}
	if d.o.Operates(r) {
		rooms = rooms[1:]
	}
	for _, room := range rooms {
		select {
		case room <- struct{}{}:
			defer func() { <-room }() //nolint:gocritic // there are two rooms at most, and both last as long as the stream
		default:
			return &wire.Problem{
				Status: http.StatusServiceUnavailable, Title: "Too many pages",
				Detail: fmt.Sprintf("There are %d streams already.", cap(room)), Remedy: "close a page, or get /v1/live without Accept: text/event-stream",
			}
		}
	}
	d.stream(w, r, v, text)
	return nil
}

// stream sends frames until the client leaves, reads nothing for too long, or the server drains.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request, v view, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies pass each frame on at once
	to := http.NewResponseController(w)
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		if err := to.SetWriteDeadline(time.Now().Add(unread)); err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return
		}
		if err := to.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-d.o.Draining:
			return
		case <-tick.C:
		}
		if v.rule != "" && !d.o.Known(v.rule) {
			return // a reload removed the rule; the page comes again
		}
		var err error
		if text, err = d.frames.get(r.Context(), v); err != nil {
			return
		}
	}
}
