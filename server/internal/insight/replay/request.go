package replay

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// request makes requests of records. All requests are one, so each is valid until the next.
type request struct {
	http.Request
	url     url.URL
	rec     *logs.Record
	fields  []field // of Record.Values
	cookies []field
	queries []field  // if the log has no whole query
	lines   []string // room for the values of headers
	line    strings.Builder
}

// field is a part of requests: a member of Record.Values, or an assumed text.
type field struct {
	logs.Name
	index int // -1 for an assumed text
	text  string
}

// value returns the value that a record has, and whether it has one.
func (f *field) value(rec *logs.Record) (string, bool) {
	if f.index < 0 {
		return f.text, true
	}
	text := rec.Values[f.index]
	if f.Source != "header" {
		text, _, _ = strings.Cut(text, logs.Separator)
	}
	return text, text != logs.Missing
}

func newRequest(l *logs.Layout, assumed []Assumption) *request {
	q := &request{}
	q.Proto, q.ProtoMajor, q.ProtoMinor, q.Body = "HTTP/1.1", 1, 1, http.NoBody
	q.Header, q.URL = http.Header{}, &q.url
	add := func(f field) {
		switch {
		case f.Source == "cookie":
			q.cookies = append(q.cookies, f)
		case f.Source == "query" && l.Has&logs.HasQuery == 0:
			q.queries = append(q.queries, f)
		case f.Source == "header" || f.Source == "claim" || f.Source == "attribute":
			q.fields = append(q.fields, f)
		}
	}
	for i, n := range l.Names {
		add(field{Name: n, index: i})
	}
	for _, a := range assumed {
		if l.Index(a.Name.Source, a.Name.Name) < 0 {
			add(field{Name: a.Name, index: -1, text: a.Value})
		}
	}
	q.lines = make([]string, len(q.fields)+1)
	return q
}

// unknownHost is the host of requests whose log has none. No rule reads it.
const unknownHost = "unknown.invalid"

// set makes the request of a record. It returns false for a target that no server accepts.
func (q *request) set(rec *logs.Record) bool {
	q.rec = rec
	q.Method, q.Host, q.RemoteAddr, q.ContentLength = rec.Method, rec.Host, rec.Client, max(0, rec.Received)
	if q.Host == "" {
		q.Host = unknownHost
	}
	for i := range q.fields {
		f := &q.fields[i]
		text, ok := f.value(rec)
		switch {
		case f.Source == "header" && strings.Contains(text, logs.Separator):
			q.Header[f.Name.Name] = strings.Split(text, logs.Separator)
		case f.Source == "header" && ok:
			q.lines[i] = text
			q.Header[f.Name.Name] = q.lines[i : i+1 : i+1]
		case f.Source == "header":
			delete(q.Header, f.Name.Name)
		}
	}
	if len(q.cookies) > 0 {
		if line := q.join(q.cookies, "; "); line != "" {
			q.lines[len(q.fields)] = line
			q.Header["Cookie"] = q.lines[len(q.fields):]
		} else {
			delete(q.Header, "Cookie")
		}
	}
	if !setTarget(&q.url, rec.Target) {
		return false
	}
	if len(q.queries) > 0 {
		q.url.RawQuery = q.join(q.queries, "&")
	}
	return true
}

// named returns a function that gets the claims or the attributes of a request; nil if requests have none.
func (q *request) named(from string) func(*http.Request, string) (string, bool) {
	if !slices.ContainsFunc(q.fields, func(f field) bool { return f.Source == from }) {
		return nil
	}
	return func(_ *http.Request, name string) (string, bool) {
		i := slices.IndexFunc(q.fields, func(f field) bool { return f.Source == from && f.Name.Name == name })
		if i < 0 {
			return "", false
		}
		return q.fields[i].value(q.rec)
	}
}

// join returns the pairs of names and values that a record has.
func (q *request) join(fields []field, between string) string {
	q.line.Reset()
	for i := range fields {
		if text, ok := fields[i].value(q.rec); ok {
			if q.line.Len() > 0 {
				q.line.WriteString(between)
			}
			q.line.WriteString(fields[i].Name.Name + "=" + text)
		}
	}
	return q.line.String()
}

// plainBytes has the bytes of a path that mean themselves.
var plainBytes = func() (all [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~" {
		all[c] = true
	}
	return all
}()

// setTarget reads a target as package net/http does.
func setTarget(u *url.URL, target string) bool {
	path, query, found := strings.Cut(target, "?")
	for i := range len(path) {
		if !plainBytes[path[i]] {
			parsed, err := url.ParseRequestURI(target)
			if err != nil {
				return false
			}
			*u = *parsed
			return true
		}
	}
	if path == "" || path[0] != '/' {
		return false
	}
	*u = url.URL{Path: path, RawQuery: query, ForceQuery: found && query == ""}
	return true
}
