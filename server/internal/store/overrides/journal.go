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
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
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
	all  map[string]string // the texts of records by their names
	book *Book
}

// errDamaged is why a journal cannot be read.
var errDamaged = errors.New("it is damaged, or of another version")

// OpenLocal returns the book of the overrides of this server, in a table. The path is of the journal; without one, the overrides end with the
// server. A journal that is damaged is set aside, as the file of states is.
func OpenLocal(path string, t *policy.OverrideTable, logger *slog.Logger, m *telemetry.Metrics) (*Book, error) {
	j := &journal{all: map[string]string{}}
	if j.book = newBook("memory", t, j, logger, m); path == "" {
		return j.book, nil
	}
	j.book.Kept = "file"
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
		clear(j.all)
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
	if cut {
		j.book.logger.Warn("the last change of overrides was cut off, as by a crash, and was not answered", "file", j.file.Path())
	}
	now, one := time.Now(), make([]redisstore.Record, 1)
	for name, text := range j.all {
		one[0] = redisstore.Record{Name: name, Text: text}
		for range j.book.apply(j.book.Table, one, now) {
			delete(j.all, name)
		}
	}
	if err := j.file.Replace(j.writeAll); err != nil && !writable.Full(err) {
		return err
	}
	return nil
}

// readAll reads all entries, and reports whether the last one is cut off.
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
			return false, errDamaged
		}
		content := make([]byte, n)
		if _, err := io.ReadFull(r, content); err != nil {
			return true, nil //nolint:nilerr // so does a cut entry
		}
		if crc32.ChecksumIEEE(content) != binary.LittleEndian.Uint32(head[4:]) {
			return false, errDamaged
		}
		for rest := string(content); rest != ""; {
			var parts [3]string
			for i := range parts {
				if parts[i], rest, err = cutPart(rest); err != nil {
					return false, err
				}
			}
			if j.all[parts[0]] = parts[1]; parts[2] != "" {
				delete(j.all, parts[0])
			}
		}
	}
}

// cutPart returns the first part of an encoding, and the rest.
func cutPart(text string) (part, rest string, err error) {
	size, used := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
	if used <= 0 || size > uint64(len(text)-used) {
		return "", "", errDamaged
	}
	return text[used : used+int(size)], text[used+int(size):], nil
}

// entryOf returns the entry of some records.
func entryOf(records []redisstore.Record) []byte {
	entry := make([]byte, 8)
	for i := range records {
		removed := ""
		if records[i].Removed {
			removed = "-"
		}
		for _, part := range []string{records[i].Name, records[i].Text, removed} {
			entry = sluice.AppendKeyPart(entry, part)
		}
	}
	binary.LittleEndian.PutUint32(entry, uint32(len(entry)-8))
	binary.LittleEndian.PutUint32(entry[4:], crc32.ChecksumIEEE(entry[8:]))
	return entry
}

// writeAll writes a whole journal.
func (j *journal) writeAll(w io.Writer) error {
	if _, err := io.WriteString(w, magic); err != nil {
		return err
	}
	for names := range slices.Chunk(slices.Collect(maps.Keys(j.all)), 1000) {
		records := make([]redisstore.Record, len(names))
		for i, name := range names {
			records[i] = redisstore.Record{Name: name, Text: j.all[name]}
		}
		if _, err := w.Write(entryOf(records)); err != nil {
			return err
		}
	}
	return nil
}

// put writes the changes, and applies them when they are durable.
func (j *journal) put(_ context.Context, records []redisstore.Record) (found []bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(records); err != nil {
		return nil, fmt.Errorf("the overrides beside store.memory.file: %w", err)
	}
	for _, r := range records {
		_, known := j.all[r.Name]
		found = append(found, known)
		if j.all[r.Name] = r.Text; r.Removed {
			delete(j.all, r.Name)
		}
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

func (j *journal) read(_ context.Context, names []string) ([]redisstore.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]redisstore.Record, len(names))
	for i, name := range names {
		text, known := j.all[name]
		all[i] = redisstore.Record{Name: name, Text: text, Removed: !known}
	}
	return all, nil
}

// follow has nothing to do: put has applied all changes.
func (*journal) follow(context.Context, *Book) error { return nil }

// sweep forgets ended records. They leave the file when it is written as a whole.
func (j *journal) sweep(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.all, func(name, text string) bool {
		o, ok := read(&redisstore.Record{Name: name, Text: text})
		return ok && !o.Until.IsZero() && !o.Until.After(now)
	})
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
