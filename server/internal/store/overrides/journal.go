package overrides

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/server/internal/observe/telemetry"
	"github.com/sluicehq/sluice/server/internal/store/statefile"
	"github.com/sluicehq/sluice/server/internal/writable"
)

// magic begins a journal. Then come entries: the length of the content, a checksum, and the content, which is a list of records.
const magic = "sluice overrides 1\n"

// mostEntry bounds an entry, so that a damaged length takes no memory.
const mostEntry = 64 << 20

// journal keeps overrides in this process, and in a file if there is one.
type journal struct {
	file *statefile.File // nil without one
	mu   sync.Mutex
	all  texts
	book *Book
}

// errDamaged is why a journal cannot be read.
var errDamaged = errors.New("it is damaged, or of another version")

// OpenLocal returns the book of the overrides of this server, in a table. The path is of the journal; without one, the overrides end with the
// server. A journal that is damaged is set aside, as the file of states is.
func OpenLocal(path string, t *policy.OverrideTable, logger *slog.Logger, m *telemetry.Metrics) (*Book, error) {
	j := &journal{}
	if j.book = newBook("memory", t, j, logger, m); path == "" {
		return j.book, nil
	}
	j.book.kept = "file"
	var err error
	if j.file, err = statefile.Open(path); err != nil {
		return nil, fmt.Errorf("the overrides beside store.memory.file: %w", err)
	}
	if err := j.load(); err != nil {
		_ = j.file.Close() // nothing was written
		return nil, fmt.Errorf("the overrides beside store.memory.file: %w", err)
	}
	return j.book, nil
}

// load reads the journal, and puts its records into the table.
func (j *journal) load() error {
	file, err := j.file.Reader()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cut, err := j.readAll(bufio.NewReaderSize(file, 1<<16))
	if err = errors.Join(err, file.Close()); errors.Is(err, errDamaged) {
		j.all = texts{}
		aside, renamed := j.file.SetAside(time.Now())
		if renamed != nil {
			return errors.Join(err, renamed)
		}
		j.book.logger.Error("the overrides by call are refused: none is in force", "file", j.file.Path(), "error", err, "kept_as", aside)
		return nil
	}
	if err != nil {
		return err
	}
	aside := ""
	if cut {
		if aside, err = j.file.SetAside(time.Now()); err != nil {
			return err
		}
		j.book.logger.Warn("the end of the overrides is cut off or damaged, as by a loss of power: changes before it are in force",
			"file", j.file.Path(), "kept_as", aside)
	}
	now, one := time.Now(), make([]redisstore.Record, 1)
	var ended []string
	for one[0] = range j.all.each {
		ended = append(ended, j.book.apply(j.book.Table, one, now)...)
	}
	j.forget(ended)
	err = j.file.Replace(j.writeAll)
	if err != nil && aside != "" {
		if back := os.Rename(aside, j.file.Path()); back != nil { // for the next start
			return errors.Join(err, back)
		}
	}
	if err != nil && !writable.Full(err) {
		return err
	}
	return nil
}

// readAll reads all entries, and reports whether the last one is cut off or damaged: the length of an entry may be, too.
func (j *journal) readAll(r *bufio.Reader) (cut bool, err error) {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r, begin); err != nil || string(begin) != magic {
		return false, errDamaged
	}
	for {
		var head [8]byte
		switch _, err := io.ReadFull(r, head[:]); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return true, nil //nolint:nilerr // a cut head ends the journal
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > mostEntry {
			return true, nil
		}
		content := make([]byte, n)
		if _, err := io.ReadFull(r, content); err != nil {
			return true, nil //nolint:nilerr // so does a cut entry
		}
		if crc32.ChecksumIEEE(content) != binary.LittleEndian.Uint32(head[4:]) {
			if _, err := r.Peek(1); errors.Is(err, io.EOF) {
				return true, nil
			}
			return false, errDamaged
		}
		for len(content) > 0 {
			var r redisstore.Record
			if r, content, err = recordAt(content); err != nil {
				return false, err
			}
			j.all.set(r)
		}
	}
}

// cutPart returns the first part of an encoding, and the rest.
func cutPart(text []byte) (part, rest []byte, err error) {
	size, used := binary.Uvarint(text)
	if used <= 0 || size > uint64(len(text)-used) {
		return nil, nil, errDamaged
	}
	return text[used : used+int(size)], text[used+int(size):], nil
}

// entryOf returns the entry of some records.
func entryOf(records []redisstore.Record) []byte {
	entry := make([]byte, 8)
	for i := range records {
		entry = partsOf(entry, &records[i])
	}
	binary.LittleEndian.PutUint32(entry, uint32(len(entry)-8))
	binary.LittleEndian.PutUint32(entry[4:], crc32.ChecksumIEEE(entry[8:]))
	return entry
}

// writeAll writes a whole journal.
func (j *journal) writeAll(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	_, _ = b.WriteString(magic) // Flush has the first error
	for r := range j.all.each {
		_, _ = b.Write(entryOf([]redisstore.Record{r}))
	}
	return b.Flush()
}

// PutRecords writes the changes, and applies them when they are durable.
func (j *journal) PutRecords(_ context.Context, records []redisstore.Record) (found []bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range records {
		if was := records[i].Was; was != nil {
			if now := j.all.get(records[i].Name); now.Removed != was.Removed || !now.Removed && now.Text != was.Text {
				return nil, redisstore.ErrRecordChanged
			}
		}
	}
	if err := j.write(records); err != nil {
		return nil, fmt.Errorf("the overrides beside store.memory.file: %w", err)
	}
	for _, r := range records {
		found = append(found, !j.all.get(r.Name).Removed)
		j.all.set(r)
	}
	j.book.apply(j.book.Table, records, time.Now())
	return found, nil
}

// write appends the changes to the file. If it cannot be appended to, or has grown, the file is written as a whole before.
func (j *journal) write(records []redisstore.Record) error {
	if j.file == nil {
		return nil
	}
	if !j.file.CanAppend() || j.file.ShouldCompact() {
		if err := j.file.Replace(j.writeAll); err != nil && !j.file.CanAppend() {
			return err
		}
	}
	return j.file.Append(func(w io.Writer) error {
		_, err := w.Write(entryOf(records))
		return err
	})
}

// RecordsOf reads records.
func (j *journal) RecordsOf(_ context.Context, names []string) ([]redisstore.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]redisstore.Record, len(names))
	for i, name := range names {
		all[i] = j.all.get(name)
	}
	return all, nil
}

// follow has nothing to do: put has applied all changes.
func (*journal) follow(context.Context, *Book) error { return nil }

// sweep forgets ended records. They leave the file when it is written as a whole.
func (j *journal) sweep(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ended []string
	for r := range j.all.each {
		if o, ok := read(&r); ok && !o.Until.IsZero() && !o.Until.After(now) {
			ended = append(ended, r.Name)
		}
	}
	j.forget(ended)
}

func (j *journal) forget(names []string) {
	for _, name := range names {
		j.all.set(redisstore.Record{Name: name, Removed: true})
	}
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
