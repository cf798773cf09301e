package threats

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// record is what a service reports about a request that reached it: the handlers that ran, and the
// values that they read. A service that can read a value in several ways reports all of them. An
// empty value is a missing one.
type record struct {
	Server, Case  string
	Hex           bool // all texts are in hexadecimal
	Ran           []string
	Method, Path  string
	Host          []string
	User          []string
	Plan          []string
	APIKey        []string
	Query         []string
	QueryPlan     []string
	Cookie        []string
	CookiePlan    []string
	Authorization []string
	ID            []string
	Signed        []string // the users of signed values that the service verified itself
	Forwarding    []string // headers that may identify the client, or all headers
}

// parseRecord reads a line that a service wrote.
func parseRecord(line []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(line, r); err != nil {
		return nil, fmt.Errorf("a service wrote %q: %w", line, err)
	}
	if !r.Hex {
		r.tag()
		return r, nil
	}
	texts := []*string{&r.Case, &r.Method, &r.Path}
	for _, list := range [][]string{r.Ran, r.Host, r.User, r.Plan, r.APIKey, r.Query, r.QueryPlan, r.Cookie, r.CookiePlan, r.Authorization, r.ID, r.Signed, r.Forwarding} {
		for i := range list {
			texts = append(texts, &list[i])
		}
	}
	for _, text := range texts {
		if *text == "-" { // HAProxy's word for a missing value
			*text = ""
		}
		decoded, err := hex.DecodeString(*text)
		if err != nil {
			return nil, fmt.Errorf("a service wrote %q: %w", line, err)
		}
		*text = string(decoded)
	}
	r.tag()
	return r, nil
}

// tag removes from the tag what a folded line added to its header.
func (r *record) tag() { r.Case, _, _ = strings.Cut(r.Case, " ") }

// records collects the records of all services.
type records struct {
	mu   sync.Mutex
	all  []*record
	errs []error
	more chan struct{} // closed and replaced when a record comes
}

func newRecords() *records { return &records{more: make(chan struct{})} }

func (c *records) add(r *record, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err)
	} else {
		c.all = append(c.all, r)
	}
	close(c.more)
	c.more = make(chan struct{})
}

// scan adds the records that a service writes, until it ends.
func (c *records) scan(out io.Reader) {
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		c.add(parseRecord(line))
	}
}

// take returns the records since the last call.
func (c *records) take() ([]*record, []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, errs := c.all, c.errs
	c.all, c.errs = nil, nil
	return all, errs
}

// find returns a record, and a channel that is closed when there are more.
func (c *records) find(wanted func(*record) bool) (*record, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.all {
		if wanted(r) {
			return r, nil
		}
	}
	return nil, c.more
}
