package overrides

import (
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// Override is what a key of a rule has in place of the rule's numbers. Its terms are as rules.File.Terms reads them.
type Override = wire.KeptOverride

// nameOf identifies an override: by its rule, and its key.
func nameOf(rule string, k sluice.Key) string {
	name := sluice.AppendKeyPart(nil, rule)
	name = sluice.AppendKeyPart(name, strconv.Itoa(k.Len()))
	return string(sluice.AppendKeyPart(name, k.Text()))
}

// recordOf returns an override as stores keep it.
func recordOf(o *Override) redisstore.Record {
	var text []byte
	for _, part := range []string{o.Terms, millis(o.Until), o.Note, o.By, millis(o.At)} {
		text = sluice.AppendKeyPart(text, part)
	}
	return redisstore.Record{Name: nameOf(o.Rule, o.Key), Text: string(text), Until: o.Until, Removed: o.Removed}
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
