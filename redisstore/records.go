package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Record is a text that all programs share which use the store: they find changes with RecordsSince. Records are for
// settings, such as overrides, and not for states.
type Record struct {
	// Name identifies the record.
	Name string
	// Text is its content.
	Text string
	// Until is when the store drops the record, the zero time for never. It is lost when the record is read: a program
	// that needs it puts it into the text, and does not use the record afterwards.
	Until time.Time
	// For is how long the store keeps the record, by the clock of the store; zero for no end. Give Until, For or
	// neither. It is lost when the record is read.
	For time.Duration
	// Age is how long ago the record was put, by the clock of the store. Only RecordsSince sets it.
	Age time.Duration
	// Removed means that the record does not exist.
	Removed bool
	// Was is the record that PutRecords must replace, nil for any: with its Text, or Removed for none.
	Was *Record
}

// ErrRecordChanged is the error of PutRecords if a record is not as Was has it.
var ErrRecordChanged = errors.New("redisstore: another program has changed the record; read it again")

// RecordMark is how far a program has read the changes of records. The zero mark is before all changes. A mark is
// a value, and safe for concurrent use.
type RecordMark struct {
	epoch string
	last  int64
	// began is the last change when the program began to read from the zero mark. It has not read records as they were
	// before.
	began int64
}

// RecordPage is a part of the changes of records.
type RecordPage struct {
	// Records are the records that changed, as they are now.
	Records []Record
	// Next is where the next page begins, and More says that there is one already.
	Next RecordMark
	More bool
	// Again means that the server cannot know what has changed since the mark: its data were lost, or the mark is too
	// old. The page is the first page of all records, and other records do not exist. With a later page that is not the
	// first one, read all again from the zero mark.
	Again bool
}

// removalsLast is for how long the names of removed records are kept. A program that has not read changes for so long
// reads all records again.
const removalsLast = time.Minute

var (
	recordsPutScript   = newScript("now", "records_put")
	recordsSinceScript = newScript("now", "records_since")
)

// Records are the records of a space. Make them with Store.Records. All methods are safe for concurrent use.
type Records struct {
	store *Store
	stem  string // of keys
}

// Records returns the records of a space, whose name has lower-case letters only. Records of other spaces are other
// records. Each space is in one slot of a cluster.
func (s *Store) Records(space string) *Records {
	// No key of a client has such a text in braces: see names.appendText.
	return &Records{s, s.names.prefix + "{%." + space + "}"}
}

// recordKey returns the key of a record, and its member in the log.
func (r *Records) recordKey(name string) (key, member string) {
	sum := sha256.Sum256([]byte(name))
	member = base64.RawURLEncoding.EncodeToString(sum[:16])
	return r.stem + "r:" + member, member
}

// PutRecords keeps records, and removes the records that are Removed. It changes all or none. The result says for each
// record whether it was there. If a record is not as Was has it, the error is ErrRecordChanged. When PutRecords returns
// without an error, no other program reads the earlier records. Errors are as in sluice.Store, with the error of the
// server or the connection.
func (r *Records) PutRecords(ctx context.Context, records []Record) (found []bool, err error) {
	keys := append(make([]string, 0, len(records)+3), r.stem+"meta", r.stem+"log", r.stem+"ends")
	args := append(make([]string, 0, 4*len(records)+2), rand.Text(), strconv.FormatInt(removalsLast.Microseconds(), 10))
	for i := range records {
		one := &records[i]
		key, member := r.recordKey(one.Name)
		text, until := kept('+', one.Name, one.Text), "0"
		switch {
		case one.Removed:
			text = kept('-', one.Name, "")
		case one.For > 0:
			until = "+" + strconv.FormatInt(one.For.Microseconds(), 10)
		case !one.Until.IsZero():
			until = strconv.FormatInt(one.Until.UnixMicro(), 10)
		}
		keys, args = append(keys, key), append(args, text, until, member, one.was())
	}
	reply, err := r.store.run(ctx, recordsPutScript, keys, args)
	if err != nil {
		return nil, err
	}
	switch {
	case reply == "changed":
		return nil, ErrRecordChanged
	case len(reply) != len(records):
		return nil, errRecords
	}
	for _, digit := range []byte(reply) {
		found = append(found, digit == '1')
	}
	return found, nil
}

// kept returns the text that the store keeps of a record, or after a minus sign of a removal. See readRecord.
func kept(sign rune, name, text string) string {
	return fmt.Sprintf("%c%d %s%s", sign, len(name), name, text)
}

// was returns the text that the store must have: - for none, and nothing if it may have any.
func (r *Record) was() string {
	switch {
	case r.Was == nil:
		return ""
	case r.Was.Removed:
		return "-"
	default:
		return kept('+', r.Name, r.Was.Text)
	}
}

// errRecords is the error of a reply that no script of this version writes.
var errRecords = fmt.Errorf("redisstore: the records in the store are not of this version; use one version, or give Sluice a prefix of its own")

// RecordsSince returns up to most records that have changed since a mark; 1,000 are a good number. A record may come twice.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (r *Records) RecordsSince(ctx context.Context, m RecordMark, most int) (page RecordPage, err error) {
	if m.epoch == "" {
		m.epoch = "-"
	}
	reply, err := r.store.run(ctx, recordsSinceScript, []string{r.stem + "meta", r.stem + "log"}, []string{m.epoch, strconv.FormatInt(m.last, 10), strconv.Itoa(most), strconv.FormatInt(m.began, 10)})
	if err != nil {
		return page, err
	}
	words := strings.Fields(reply)
	if len(words) < 6 || len(words)%2 != 0 {
		return page, errRecords
	}
	number := func(word string) int64 {
		n, bad := strconv.ParseInt(word, 10, 64)
		if bad != nil {
			err = errRecords
		}
		return n
	}
	page = RecordPage{Again: words[1] == "1", More: words[3] == "1", Next: RecordMark{words[0], number(words[2]), m.began}}
	now := number(words[4])
	if m.last == 0 || page.Again {
		page.Next.began = number(words[5])
	}
	words = words[6:]
	keys, changed := make([]string, len(words)/2), make([]int64, len(words)/2)
	for i := range keys {
		keys[i], changed[i] = r.stem+"r:"+words[2*i], number(words[2*i+1])
	}
	if err != nil || len(words) == 0 {
		return page, err
	}
	texts, err := r.recordTexts(ctx, keys)
	if err != nil {
		return page, err
	}
	for i, text := range texts {
		switch one, ok := readRecord(text); {
		case text == "" && changed[i] > page.Next.began:
			page.Again = true // it has ended, or its removal is forgotten, and the program may have read it before
		case text == "":
		case !ok:
			return page, errRecords
		default:
			one.Age = time.Duration(max(0, now-changed[i])) * time.Microsecond
			page.Records = append(page.Records, one)
		}
	}
	return page, nil
}

// RecordsOf returns the records of some names, in their order; a record that does not exist is Removed.
// Errors are as in sluice.Store, with the error of the server or the connection.
func (r *Records) RecordsOf(ctx context.Context, of []string) ([]Record, error) {
	keys, all := make([]string, len(of)), make([]Record, len(of))
	for i, name := range of {
		keys[i], _ = r.recordKey(name)
	}
	if len(of) == 0 {
		return nil, nil
	}
	texts, err := r.recordTexts(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		all[i] = Record{Name: of[i], Removed: true}
		if text == "" {
			continue
		}
		one, ok := readRecord(text)
		if !ok {
			return nil, errRecords
		}
		all[i] = one
	}
	return all, nil
}

// recordTexts returns the texts at some keys.
func (r *Records) recordTexts(ctx context.Context, keys []string) ([]string, error) {
	reply, err := r.store.run(ctx, bansScript, keys, nil)
	if err != nil {
		return nil, err
	}
	in := reader{rest: reply}
	if in.count(); in.list() != len(keys) {
		in.fail()
	}
	texts := make([]string, len(keys))
	for i := range texts {
		texts[i] = in.text()
	}
	return texts, in.err
}

// readRecord reads the text of a record or a removal.
func readRecord(text string) (r Record, ok bool) {
	if text == "" {
		return r, false
	}
	length, rest, ok := strings.Cut(text[1:], " ")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) || text[0] != '+' && text[0] != '-' {
		return r, false
	}
	return Record{Name: rest[:n], Text: rest[n:], Removed: text[0] == '-'}, true
}
