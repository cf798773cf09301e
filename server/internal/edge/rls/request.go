package rls

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a call. A descriptor takes much more memory than the bytes of an empty descriptor.
const (
	mostDescriptors = 1000
	mostEntries     = 64
)

// hits is the number of hits of a descriptor.
type hits struct {
	own   bool // the descriptor has a number of its own
	count uint64
}

// override is the limit that a descriptor brings along.
type override struct {
	set, multiplied       bool
	count, unit, multiple uint32
}

// wire reads the fields of messages. The texts that it returns share one copy of the message.
type wire struct {
	b    []byte
	text string // the same bytes
	at   int
	end  int
	err  error
}

// Errors of bytes that are not a message.
var (
	errMalformed = errors.New("rls: the message is malformed")
	errUTF8      = errors.New("rls: a string of the message is not UTF-8")
)

// next returns the number and the type of the next field; false at the end, or after an error.
func (w *wire) next() (protowire.Number, protowire.Type, bool) {
	if w.err != nil || w.at >= w.end {
		return 0, 0, false
	}
	number, kind, n := protowire.ConsumeTag(w.b[w.at:w.end])
	if n < 0 || number > protowire.MaxValidNumber {
		w.err = errMalformed
		return 0, 0, false
	}
	w.at += n
	return number, kind, true
}

// skip passes over the value of a field that is not read.
func (w *wire) skip(number protowire.Number, kind protowire.Type) {
	n := protowire.ConsumeFieldValue(number, kind, w.b[w.at:w.end])
	if n < 0 {
		w.err = errMalformed
		return
	}
	w.at += n
}

// varint reads a number.
func (w *wire) varint() uint64 {
	v, n := protowire.ConsumeVarint(w.b[w.at:w.end])
	if n < 0 {
		w.err = errMalformed
		return 0
	}
	w.at += n
	return v
}

// size reads the length of a value that has one, and returns where the value ends.
func (w *wire) size() (end int) {
	n := w.varint()
	if w.err != nil || n > uint64(w.end-w.at) {
		w.err = errMalformed
		return w.at
	}
	return w.at + int(n)
}

// string reads a text.
func (w *wire) string() string {
	end := w.size()
	if w.err != nil {
		return ""
	}
	s := w.text[w.at:end]
	w.at = end
	if !utf8.ValidString(s) {
		w.err = errUTF8
	}
	return s
}

// enter begins to read a message inside the message. leave, with the result, ends that.
func (w *wire) enter() (outer int) {
	end := w.size()
	outer, w.end = w.end, end
	return outer
}

func (w *wire) leave(outer int) { w.end = outer }

// UnmarshalWire reads a RateLimitRequest. The error is for bytes that are not a RateLimitRequest; check finds all other
// mistakes.
func (c *call) UnmarshalWire(b []byte) error {
	c.reset()
	w := wire{b: b, text: string(b), end: len(b)}
	for {
		number, kind, ok := w.next()
		switch {
		case !ok:
			return w.err
		case number == 1 && kind == protowire.BytesType:
			c.domain = w.string()
		case number == 2 && kind == protowire.BytesType:
			outer := w.enter()
			c.readDescriptor(&w)
			w.leave(outer)
		case number == 3 && kind == protowire.VarintType:
			c.hits = uint32(w.varint()) // as package proto does, which drops higher bits
		default:
			w.skip(number, kind)
		}
	}
}

// readDescriptor reads a RateLimitDescriptor. Beyond the bound of descriptors, it only counts them.
func (c *call) readDescriptor(w *wire) {
	if c.count++; c.count > mostDescriptors {
		w.at = w.end
		return
	}
	var h hits
	var o override
	d := descriptors.Request{}
	first := len(c.entries)
	for {
		number, kind, ok := w.next()
		switch {
		case !ok:
			d.Entries = c.entries[first:len(c.entries):len(c.entries)]
			c.descriptors, c.each, c.overrides = append(c.descriptors, d), append(c.each, h), append(c.overrides, o)
			return
		case number == 1 && kind == protowire.BytesType:
			outer := w.enter()
			c.readEntry(w, len(c.entries)-first)
			w.leave(outer)
		case number == 2 && kind == protowire.BytesType:
			outer := w.enter()
			o.read(w)
			w.leave(outer)
		case number == 3 && kind == protowire.BytesType:
			outer := w.enter()
			h.own = true
			w.wrapped(&h.count)
			w.leave(outer)
		case number == 4 && kind == protowire.VarintType:
			d.Refund = w.varint() != 0
		default:
			w.skip(number, kind)
		}
	}
}

// readEntry reads an Entry, of a descriptor that has n entries.
func (c *call) readEntry(w *wire, n int) {
	var e descriptors.Entry
	for {
		number, kind, ok := w.next()
		switch {
		case !ok:
			if n < mostEntries {
				c.entries = append(c.entries, e)
			} else {
				c.deep = true
			}
			return
		case number == 1 && kind == protowire.BytesType:
			e.Key = w.string()
		case number == 2 && kind == protowire.BytesType:
			e.Value = w.string()
		default:
			w.skip(number, kind)
		}
	}
}

// read reads a RateLimitOverride. A message that comes twice is merged, as package proto does.
func (o *override) read(w *wire) {
	o.set = true
	for {
		number, kind, ok := w.next()
		switch {
		case !ok:
			return
		case number == 1 && kind == protowire.VarintType:
			o.count = uint32(w.varint())
		case number == 2 && kind == protowire.VarintType:
			o.unit = uint32(w.varint())
		case number == 3 && kind == protowire.BytesType:
			outer := w.enter()
			n := uint64(o.multiple)
			w.wrapped(&n)
			o.multiple, o.multiplied = uint32(n), true
			w.leave(outer)
		default:
			w.skip(number, kind)
		}
	}
}

// wrapped reads a wrapper of a number, such as UInt64Value.
func (w *wire) wrapped(v *uint64) {
	for {
		number, kind, ok := w.next()
		switch {
		case !ok:
			return
		case number == 1 && kind == protowire.VarintType:
			*v = w.varint()
		default:
			w.skip(number, kind)
		}
	}
}

// check fills in the descriptors for the policy. The error has the status INVALID_ARGUMENT.
func (c *call) check() error {
	switch {
	case c.domain == "":
		return invalid("the domain is empty; set domain in the rate limit filter of the gateway")
	case c.count == 0:
		return invalid("there are no descriptors; give the route of the gateway a rate limit action that makes one")
	case c.count > mostDescriptors:
		return invalid(fmt.Sprintf("there are %d descriptors; the most is %d", c.count, mostDescriptors))
	case c.deep:
		return invalid(fmt.Sprintf("a descriptor has more than %d entries", mostEntries))
	}
	for i := range c.descriptors {
		d, h := &c.descriptors[i], c.each[i]
		if !h.own {
			h.count = max(1, uint64(c.hits))
		}
		if h.count > math.MaxInt64 {
			return invalid(fmt.Sprintf("hits_addend of descriptor %d is %d; the most is %d", i, h.count, int64(math.MaxInt64)))
		}
		d.Cost = int64(h.count)
		d.Look = h.count == 0
		if d.Refund && d.Look {
			d.Refund = false // nothing to give back
		}
		if o := &c.overrides[i]; o.set {
			rate, problem := o.rate()
			if problem != "" {
				return invalid(fmt.Sprintf("limit of descriptor %d: %s", i, problem))
			}
			d.Limit = &rate
		}
	}
	return nil
}

// rate returns the rate of an override.
func (o *override) rate() (sluice.Rate, string) {
	if o.unit == 0 || o.unit >= uint32(len(periods)) {
		return sluice.Rate{}, fmt.Sprintf("unit is %d; give SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR", o.unit)
	}
	unit, multiple := int64(periods[o.unit]), int64(1)
	if o.multiplied {
		multiple = int64(o.multiple)
	}
	if multiple == 0 {
		return sluice.Rate{}, "unit_multiplier is 0; give 1 or more, or leave it out"
	}
	if multiple > int64(mostPeriod)/unit {
		return sluice.Rate{}, fmt.Sprintf("unit_multiplier is %d; a period is 100 years at most", o.multiple)
	}
	return sluice.Per(int64(o.count), time.Duration(multiple*unit)), ""
}
