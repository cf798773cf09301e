package policyfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/policy"
)

// List are keys and clients that a rule lets pass, or refuses, without asking its limits.
type List struct {
	// Key are keys, each a value, or a list of them if the rule's key has several parts.
	Key [][]string `yaml:"key"`
	// KeyFile is a file of keys, one a line: of several parts, with commas between them, as CSV.
	KeyFile string `yaml:"key_file"`
	// ClientIP are addresses and networks.
	ClientIP []netip.Prefix `yaml:"client_ip"`
	// ClientIPFile is a file of them, one a line. Text after a # is a comment.
	ClientIPFile string `yaml:"client_ip_file"`
}

// build returns a list; "Allow" or "Deny" is what the policy calls it.
func (l *List) build(f *File, s *source, path, name string, where *places) (keys [][]string, networks []netip.Prefix) {
	if l == nil {
		return nil, nil
	}
	for i, key := range l.Key {
		keys = append(keys, key)
		where.add(name+"Keys", spot{path: fmt.Sprintf("%s.key[%d]", path, i)})
	}
	for i, p := range l.ClientIP {
		networks = append(networks, p)
		where.add(name+"IPs", spot{path: fmt.Sprintf("%s.client_ip[%d]", path, i)})
	}
	if setting := path + ".key_file"; l.KeyFile != "" || s.has(setting) {
		f.rows(s, setting, l.KeyFile, func(at spot, row []string) {
			keys = append(keys, row)
			where.add(name+"Keys", at)
		})
	}
	if setting := path + ".client_ip_file"; l.ClientIPFile != "" || s.has(setting) {
		f.lines(s, setting, l.ClientIPFile, func(at spot, text string) {
			p, problem, suggestion := parsePrefix(text)
			if problem != "" {
				s.followSpot(at, quote(text)+" "+problem, suggestion)
				return
			}
			networks = append(networks, p)
			where.add(name+"IPs", at)
		})
	}
	return keys, networks
}

// lists fills in the lists of a rule.
func (r *Rule) lists(f *File, s *source, path string, p *policy.Rule, where *places) {
	p.AllowKeys, p.AllowIPs = r.Allow.build(f, s, path+".allow", "Allow", where)
	p.DenyKeys, p.DenyIPs = r.Deny.build(f, s, path+".deny", "Deny", where)
}

// lines reads a file line by line, without comments and empty lines.
func (f *File) lines(s *source, setting, name string, each func(at spot, text string)) {
	file, ok := f.text(s, setting, name)
	if !ok {
		return
	}
	number := 0
	for line := range bytes.Lines(file.data) {
		number++
		text, _, _ := strings.Cut(string(line), "#")
		before := len(text) - len(strings.TrimLeft(text, " \t"))
		if text = strings.TrimSpace(text); text != "" && !s.full() {
			each(spot{path: setting, pos: Pos{number, before + 1}, file: file.path}, text)
		}
	}
}

// rows reads a file of comma-separated values. Lines that begin with a # are comments.
func (f *File) rows(s *source, setting, name string, each func(at spot, row []string)) {
	file, ok := f.text(s, setting, name)
	if !ok {
		return
	}
	r := csv.NewReader(bytes.NewReader(file.data))
	r.Comment, r.FieldsPerRecord = '#', -1
	for !s.full() {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			s.followSpot(spot{path: setting, pos: Pos{bad.Line, max(bad.Column, 1)}, file: file.path},
				"this line is no CSV: "+bad.Err.Error(), "put quotes around a value that has commas or quotes in it, and write these twice")
			return
		}
		line, column := r.FieldPos(0)
		each(spot{path: setting, pos: Pos{line, column}, file: file.path}, row)
	}
}

// text returns a file that holds text.
func (f *File) text(s *source, setting, name string) (includedFile, bool) {
	file, ok := f.file(s, setting, name)
	if !ok {
		return file, false
	}
	file.data = bytes.TrimPrefix(file.data, []byte("\ufeff"))
	if !utf8.Valid(file.data) {
		s.follow(setting, quote(name)+" is no UTF-8", "save the file as UTF-8")
		return file, false
	}
	return file, true
}

// followSpot is follow at a place that may be in another file.
func (s *source) followSpot(at spot, problem, suggestion string) {
	if at.file == "" {
		s.follow(at.path, problem, suggestion)
		return
	}
	if s.full() {
		return
	}
	// The line is not shown: it may hold the key of somebody.
	s.errs = append(s.errs, &Error{File: at.file, Pos: at.pos, Path: at.path, Problem: problem, Suggestion: suggestion})
}
