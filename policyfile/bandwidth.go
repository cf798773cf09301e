package policyfile

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Bandwidth paces the bytes of requests, of all requests of one key together.
type Bandwidth struct {
	// Down is the rate of what clients receive: 1MB/s. Default: no pacing.
	Down ByteRate `yaml:"down"`
	// Up is the rate of what clients send. Default: no pacing.
	Up ByteRate `yaml:"up"`
}

// ByteRate is a number of bytes per period: 1MB/s, 64KiB/s, 10GB/h.
type ByteRate sluice.Rate

// String returns the rate in bytes.
func (r ByteRate) String() string { return sluice.Rate(r).String() }

var bits = regexp.MustCompile(`(?i)bits?\b|bps$`)

// ParseByteRate reads a rate of bytes. The problem says what is wrong with the text,
// and is empty if it is one.
func ParseByteRate(text string) (r ByteRate, problem string) {
	size, period, found := strings.Cut(text, "/")
	if !found {
		return r, "has no period"
	}
	bytes, ok := ParseSize(size)
	if !ok || bytes < 1 {
		return r, "needs a size of 1 byte or more before the slash"
	}
	rate, err := sluice.ParseRate("1/" + period)
	if err != nil || period == "" {
		return r, "needs a period of s, m, h, d or w after the slash"
	}
	return ByteRate(sluice.Per(int64(bytes), rate.Period())), ""
}

func readByteRate(d *decoder, path string, n ast.Node, v reflect.Value) {
	if i, ok := n.(*ast.IntegerNode); ok {
		text := quoteless(i.GetToken().Value)
		d.report(path, text+" has no period", "write "+text+"B/s for bytes a second")
		return
	}
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	r, problem := ParseByteRate(text)
	if problem != "" {
		suggestion := "write it as in 1MB/s, 64KiB/s or 10GB/h"
		if bits.MatchString(text) {
			suggestion = "give bytes, an eighth of the bits, as in 1MB/s for 8 Mbit/s"
		}
		d.report(path, quote(text)+" "+problem, suggestion)
		return
	}
	v.Set(reflect.ValueOf(r))
}

func (b *Bandwidth) build(s *source, path string) *policy.Bandwidth {
	if b == nil {
		return nil
	}
	if *b == (Bandwidth{}) {
		s.follow(path, "has no rate", "give down or up, such as 1MB/s")
	}
	return &policy.Bandwidth{Down: sluice.Rate(b.Down), Up: sluice.Rate(b.Up)}
}
