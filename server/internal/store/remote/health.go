package remote

import (
	"log/slog"
	"sync"
	"time"
)

// ailment is one sign that the store does not work.
type ailment uint8

const (
	unconnected ailment = 1 << iota // there has been no connection yet
	tripped                         // the breaker is not closed
	unanswered                      // no other call was made, and a probe got no answer
)

// health tracks whether the store decides, and if not, since when and why. It logs each change. It is safe for
// concurrent use.
type health struct {
	logger *slog.Logger

	mu       sync.Mutex
	ailments ailment
	since    time.Time
	last     error
}

// worsen adds an ailment.
func (h *health) worsen(a ailment, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	well := h.ailments == 0
	h.ailments |= a
	if why != nil {
		h.last = why
	}
	if well {
		h.since = time.Now()
		h.logger.Error("the store does not decide: rules answer by on_store_error until it does", "error", h.last)
	}
}

// mend removes an ailment.
func (h *health) mend(a ailment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ailments&a == 0 {
		return
	}
	if h.ailments &^= a; h.ailments == 0 {
		h.logger.Info("the store decides again", "after", time.Since(h.since).Round(time.Millisecond))
	}
}

// trouble is since when the store has not decided, and the last reason.
type trouble struct {
	since time.Time
	why   error
}

// trouble returns the trouble of a store that does not decide; nil if it decides.
func (h *health) trouble() *trouble {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ailments == 0 {
		return nil
	}
	return &trouble{h.since, h.last}
}
