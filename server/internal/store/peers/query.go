package peers

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/redisstore"
)

const (
	// mostPacked bounds an answer in Redis, and mostUnpacked its text, in bytes.
	mostPacked   = 128 << 10
	mostUnpacked = 512 << 10
)

// Answer is a server, and its latest answer to a question.
type Answer struct {
	Server
	// Age is how long ago the last beat of the server was. It is Silent after Silence.
	Age time.Duration
	// Text is the latest answer; nil if there is none yet. A silent server has the answer that it gave last.
	Text []byte

	fresh bool // Text is of the last few seconds
}

// Silent reports whether the server does not answer any more.
func (a *Answer) Silent() bool { return a.Age > Silence }

// ErrBusy means that operators look at too much at once.
var ErrBusy = errors.New("peers: too many questions are open; close other pages")

// query is a question of this server.
type query struct {
	mu      sync.Mutex
	called  time.Time // last; Peers.mu guards it
	put     time.Time // into Redis
	servers []Answer  // the last ones that were read
	more    bool
}

// Query returns the other servers with their latest answers to a question, and whether there are more than 64 servers.
// The first call has no answers yet: servers answer within about a second, and go on as long as somebody calls Query
// every few seconds. After an error of Redis, the servers are as they were at the call before. A caller must not change
// a text. ErrBusy means that 16 other questions are open.
func (p *Peers) Query(ctx context.Context, text string) (servers []Answer, more bool, err error) {
	q, err := p.queryOf(text, time.Now())
	if err != nil {
		return nil, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = p.read(ctx, q, text)
	return q.servers, q.more, err
}

const (
	// waits is how long Wait waits for answers, and looks how often it looks.
	waits = 2500 * time.Millisecond
	looks = 100 * time.Millisecond
)

// Wait returns what Query returns when all servers have answered that are not silent, or after a few seconds. It is for
// questions that are rare, because only the answers of the last few seconds are new.
func (p *Peers) Wait(ctx context.Context, text string) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, waits)
	defer cancel()
	tick := time.NewTicker(looks)
	defer tick.Stop()
	for {
		servers, _, err := p.Query(ctx, text)
		if err != nil || !slices.ContainsFunc(servers, func(a Answer) bool { return !a.fresh && !a.Silent() }) {
			return servers, err
		}
		select {
		case <-ctx.Done():
			return servers, nil
		case <-tick.C:
		}
	}
}

// queryOf returns the query of a question, and forgets old ones.
func (p *Peers) queryOf(text string, now time.Time) (*query, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, q := range p.queries {
		if now.Sub(q.called) > forgotten {
			delete(p.queries, other)
		}
	}
	q := p.queries[text]
	if q == nil {
		if len(p.queries) == mostQuestions || len(text) > mostText {
			return nil, ErrBusy
		}
		q = new(query)
		p.queries[text] = q
	}
	q.called = now
	return q, nil
}

// read opens a question, and reads the answers.
func (p *Peers) read(ctx context.Context, q *query, text string) error {
	servers, more, err := p.list(ctx)
	if err != nil {
		return err
	}
	if len(servers) > 0 && time.Since(q.put) > open/3 {
		id := p.o.Self.ID
		if _, err := p.o.Questions.PutRecords(ctx, []redisstore.Record{{Name: answerName(id, text), Text: id + " " + text, For: open}}); err != nil {
			return err //nolint:wrapcheck // it names the store
		}
		q.put = time.Now()
	}
	names := make([]string, len(servers))
	for i := range servers {
		names[i] = answerName(servers[i].ID, text)
	}
	answers, err := p.o.Answers.RecordsOf(ctx, names)
	if err != nil {
		return err //nolint:wrapcheck // it names the store
	}
	before := map[string][]byte{}
	for i := range q.servers {
		before[q.servers[i].ID] = q.servers[i].Text
	}
	for i := range servers {
		servers[i].Text = before[servers[i].ID]
		if answers[i].Removed {
			continue
		}
		if answer, ok := unpack(answers[i].Text); ok {
			servers[i].Text, servers[i].fresh = answer, true
		} else {
			p.complain("it is not an answer of this version")
		}
	}
	q.servers, q.more = servers, more
	return nil
}

// pack compresses an answer.
func pack(answer []byte) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = z.Write(answer) // a Builder takes everything
	_ = z.Close()
	return b.String()
}

// unpack reads an answer, unless it is too long or damaged.
func unpack(text string) ([]byte, bool) {
	if len(text) > mostPacked {
		return nil, false
	}
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return nil, false
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(z, mostUnpacked+1))
	return b.Bytes(), err == nil && n <= mostUnpacked
}
