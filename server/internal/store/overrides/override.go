package overrides

import (
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
)

// Override is what a key of a rule has in place of the rule's numbers.
type Override struct {
	// Rule and Key say whose override it is.
	Rule string
	Key  sluice.Key
	// Terms are the numbers, as rules.File.Terms reads them.
	Terms string
	// Until is when it ends, in whole seconds; the zero time for never.
	Until time.Time
	// Note is what the operator wrote, By the name that the operator gave, and At the time of the call.
	Note, By string
	At       time.Time
	// Removed means that there is none. A change with it removes the override.
	Removed bool
}

// name identifies the override: its rule, and its key.
func (o *Override) name() string { return nameOf(o.Rule, o.Key) }

func nameOf(rule string, k sluice.Key) string {
	name := sluice.AppendKeyPart(nil, rule)
	name = sluice.AppendKeyPart(name, strconv.Itoa(k.Len()))
	return string(sluice.AppendKeyPart(name, k.Text()))
}

// record returns the override as stores keep it.
func (o *Override) record() redisstore.Record {
	var text []byte
	for _, part := range []string{o.Terms, millis(o.Until), o.Note, o.By, millis(o.At)} {
		text = sluice.AppendKeyPart(text, part)
	}
	return redisstore.Record{Name: o.name(), Text: string(text), Until: o.Until, Removed: o.Removed}
}

func millis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// read returns the override of a record, and whether it is one.
func read(r *redisstore.Record) (o Override, ok bool) {
	name := sluice.EncodedKey(r.Name, 3).Parts()
	if name == nil {
		return o, false
	}
	parts, err := strconv.Atoi(name[1])
	if err != nil || parts < 0 {
		return o, false
	}
	if o.Rule, o.Key, o.Removed = name[0], sluice.EncodedKey(name[2], parts), r.Removed; o.Removed {
		return o, true
	}
	text := sluice.EncodedKey(r.Text, 5).Parts()
	if text == nil {
		return o, false
	}
	o.Terms, o.Note, o.By = text[0], text[2], text[3]
	for i, to := range map[int]*time.Time{1: &o.Until, 4: &o.At} {
		if text[i] == "" {
			continue
		}
		n, err := strconv.ParseInt(text[i], 10, 64)
		if err != nil {
			return o, false
		}
		*to = time.UnixMilli(n)
	}
	return o, true
}
