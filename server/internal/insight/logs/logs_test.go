package logs

import (
	"compress/gzip"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sluicehq/sluice/internal/soak"
)

// write writes a file of a log, and returns its name.
func write(tb testing.TB, name, text string) string {
	tb.Helper()
	name = filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return name
}

// read reads all records.
func read(tb testing.TB, o Options) ([]Record, *Reader) {
	tb.Helper()
	r, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	var all []Record
	for rec := range requests(r) {
		if n := len(all); n > 0 && rec.At < all[n-1].At {
			tb.Fatalf("the record of line %d begins at %d, before the one at %d", rec.Line, rec.At, all[n-1].At)
		}
		all = append(all, clone(rec))
	}
	if r.Err() != nil {
		tb.Fatal(r.Err())
	}
	return all, r
}

// requests returns the records of a reader.
func requests(r *Reader) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for rs := (Records{}); r.Next(&rs, 7); {
			for i := range rs.All {
				if !yield(rs.All[i]) {
					return
				}
			}
		}
	}
}

// utc makes UTC the local time, which times without a zone have.
func utc(t *testing.T) {
	t.Helper()
	before := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = before })
}

// clone returns a record that stays valid.
func clone(rec Record) Record {
	for _, text := range []*string{&rec.Client, &rec.Method, &rec.Target, &rec.Host, &rec.Verdict.Action, &rec.Verdict.Rule} {
		*text = strings.Clone(*text)
	}
	rec.Values = slices.Clone(rec.Values)
	for i, v := range rec.Values {
		rec.Values[i] = strings.Clone(v)
	}
	return rec
}

// describe returns a record as a text for comparisons, without its line.
func describe(l *Layout, rec *Record) string {
	text := fmt.Sprintf("%s +%d %s %s %s%s %d sent=%d received=%d", time.UnixMicro(rec.At).UTC().Format("2006-01-02T15:04:05.000000"),
		rec.Duration, rec.Client, rec.Method, rec.Host, rec.Target, rec.Status, rec.Sent, rec.Received)
	for i, n := range l.Names {
		if v := rec.Values[i]; v != Missing {
			text += fmt.Sprintf(" %s:%s=%q", n.Source, n.Name, v)
		}
	}
	if rec.Verdict != (Verdict{}) {
		text += fmt.Sprintf(" %+v", rec.Verdict)
	}
	return text
}

// lines returns n lines of the combined format, whose times are up to a minute out of order.
func lines(n int, random *rand.Rand) []string {
	start := time.Date(2026, 11, 24, 23, 59, 0, 0, time.FixedZone("", 3600))
	all := make([]string, n)
	for i := range all {
		at := start.Add(time.Duration(i)*100*time.Millisecond - time.Duration(random.Int64N(int64(time.Minute))))
		all[i] = fmt.Sprintf(`192.0.2.%d - - [%s] "GET /items/%d?page=%d HTTP/1.1" 200 %d "-" "curl/8.%d"`, i%250,
			at.Format("02/Jan/2006:15:04:05 -0700"), i, i%7, i*31, i%3)
	}
	return all
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Lines that are out of order, split into files, compressed and read from the standard input give the same records.
func TestOrderAndFilesChangeNoRecord(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	n := soak.Times(t, 1200)
	all := lines(n, random)
	text := strings.Join(all, "\n") + "\n"
	shuffled := slices.Clone(all)
	for part := range slices.Chunk(shuffled, 300) { // of half a minute
		random.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	var parts [3]string
	for i, line := range all {
		parts[i%3] += line + "\n"
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	rotated := []string{}
	for i := 0; i < len(all); i += 200 {
		rotated = append(rotated, write(t, "access.log.gz", gzipped(t, strings.Join(all[i:i+200], "\n"))))
	}
	slices.Reverse(rotated)
	var want []string
	for _, c := range []struct {
		name  string
		files []string
		stdin string
	}{
		{name: "in a file", files: []string{write(t, "a", text)}},
		{name: "shuffled", files: []string{write(t, "a", strings.Join(shuffled, "\r\n"))}},
		{name: "with empty lines", files: []string{write(t, "a", strings.ReplaceAll(text, "\n", "\r\n\r\n\n"))}},
		{name: "in three files, compressed", files: []string{
			write(t, "a.gz", gzipped(t, parts[0])), write(t, "b", string(encoder.EncodeAll([]byte(parts[1]), nil))), write(t, "c", parts[2]),
		}},
		{name: "rotated", files: rotated},
		{name: "standard input", files: []string{"-"}, stdin: gzipped(t, text)},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, r := read(t, Options{Files: c.files, Stdin: strings.NewReader(c.stdin), Strict: true})
			var got []string
			for i := range records {
				got = append(got, describe(r.Layout(), &records[i]))
			}
			slices.Sort(got)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d records differ from the first case's %d; the first is %s, want %s", len(got), len(want), got[0], want[0])
			}
			if s := r.Stats(); s.Lines != int64(n) || s.Bad != 0 || s.Late != 0 || s.Total > 0 && s.Read != s.Total {
				t.Errorf("the statistics are %+v", s)
			}
		})
	}
	if len(want) != n || !slices.IsSorted(want) {
		t.Errorf("%d records are read, want %d in order", len(want), n)
	}
}

// What has come too late is counted, and time does not go back. A range of times leaves out the rest.
func TestLateAndSkipped(t *testing.T) {
	line := `192.0.2.1 - - [24/Nov/2026:10:%02d:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"` + "\n"
	text := fmt.Sprintf(line+line+line+line, 0, 9, 0, 8)
	records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Reorder: 30 * time.Second})
	if s := r.Stats(); len(records) != 4 || s.Late != 1 {
		t.Errorf("%d records, and the statistics are %+v", len(records), s)
	}
	day := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	records, r = read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Since: day.Add(time.Minute), Until: day.Add(9 * time.Minute)})
	if s := r.Stats(); len(records) != 1 || s.Skipped != 3 {
		t.Errorf("%d records, and the statistics are %+v", len(records), s)
	}
}

// Bad lines are counted and shown without control characters, and are errors only if the options say so.
func TestBadLines(t *testing.T) {
	good := `192.0.2.1 - - [24/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"` + "\n"
	for _, bad := range []string{
		"\x1b[31mred\x07", "\x00\x00", "\xff\xfe\x80", strings.Repeat("long ", 1_000_000), `192.0.2.1 - - [99/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`,
		strings.Repeat(good[:50], 100_000), strings.Repeat("x", size), strings.Repeat("x", size-1), "[", `"`, "\u202e\u200b",
	} {
		text := good + bad + "\n" + good
		records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(text)})
		s := r.Stats()
		if len(records) != 2 || s.Bad != 1 || s.Lines != 3 || len(s.FirstBads) != 1 || s.FirstBads[0].Line != 2 || records[1].Line != 3 {
			t.Errorf("%.40q: %d records, and the statistics are %+v", bad, len(records), s)
			continue
		}
		if shown := s.FirstBads[0].Text; len(shown) > 120 || strings.ContainsAny(shown, "\x00\x07\x1b\u202e\u200b") {
			t.Errorf("%.40q is shown as %q", bad, shown)
		}
		r, err := Open(Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		for range requests(r) {
			continue
		}
		if r.Err() == nil || !strings.Contains(r.Err().Error(), "-:2: ") {
			t.Errorf("%.40q: a strict reader ends with %v", bad, r.Err())
		}
		_ = r.Close()
	}
}

// Lines that nest deeply, or have many members, quotes or escapes, cost neither much memory nor much time.
func TestHostileLines(t *testing.T) {
	n := min(soak.Times(t, 10_000), 60_000)
	good := `{"ts":1795510800,"duration":0,"status":200,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/","headers":{}}`
	var members strings.Builder
	for i := range n / 8 {
		fmt.Fprintf(&members, `,"m%d":{"a":[]}`, i)
	}
	for name, line := range map[string]string{
		"arrays":  good + `,"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}",
		"objects": good + `,"x":` + strings.Repeat(`{"a":`, n/3) + "1" + strings.Repeat("}", n/3) + "}",
		"members": good + members.String() + "}",
		"open":    good + `,"x":` + strings.Repeat("[", 4*n),
		"quotes":  `192.0.2.1 - - [24/Nov/2026:10:00:00 +0000] "GET /` + strings.Repeat(`\\" [`, n/2) + ` HTTP/1.1" 200 2 "-" "-"`,
		"spaces":  strings.Repeat(" [", n) + `[24/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`,
	} {
		t.Run(name, func(t *testing.T) {
			format := "caddy"
			if line[0] != '{' {
				format = "combined"
			}
			text := strings.Repeat(line+"\n", 40)
			if name == "open" || name == "arrays" || name == "objects" { // too deep for the standard library, and so not JSON
				text = good + "}\n" + text[len(line)+1:]
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Format: format, Wanted: wantedNames()})
			runtime.ReadMemStats(&after)
			if s := r.Stats(); s.Lines != 40 || int64(len(records))+s.Bad+s.Unread != 40 {
				t.Errorf("%d records, and the statistics are %+v", len(records), s)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(len(text))*4+64<<20 {
				t.Errorf("%d bytes are allocated for %d bytes of lines", used, len(text))
			}
			if used := after.StackInuse; used > 64<<20 {
				t.Errorf("%d bytes of stack are in use", used)
			}
		})
	}
}

// An empty log has no requests, in each format that is named.
func TestEmptyLogs(t *testing.T) {
	for _, format := range []string{"combined", "caddy", "traefik", "envoy", "cloudfront", "json:time=t,method=m,target=u", `nginx:$msec "$request"`} {
		if records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(""), Format: format}); len(records) != 0 || r.Stats().Lines != 0 {
			t.Errorf("%s: an empty log has %d records, and the statistics are %+v", format, len(records), r.Stats())
		}
	}
}

// A compressed file that ends in the middle is an error, wherever it ends: its log is not complete.
func TestCutCompressedFilesAreErrors(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "192.0.2.%d - - [27/Nov/2026:10:%02d:%02d +0000] \"GET /%x HTTP/1.1\" 200 12\n", i%250, i/60%60, i%60, i*i)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"gzip": gzipped(t, b.String()), "zstd": string(encoder.EncodeAll([]byte(b.String()), nil))} {
		for _, n := range []int{4, 9, 100, len(text) / 2, len(text) - 1} {
			r, err := Open(Options{Files: []string{write(t, "cut", text[:n])}, Format: "combined"})
			if err == nil {
				for range requests(r) {
					continue
				}
				err = errors.Join(r.Err(), r.Close())
			}
			if err == nil || !strings.Contains(err.Error(), "ends in the middle") {
				t.Errorf("the first %d of %d bytes of %s give the error %v; want one that says that the file is cut", n, len(text), name, err)
			}
		}
	}
}

// A file of a compression that is not read is an error with the command that unpacks it.
func TestOtherCompressionsHaveARemedy(t *testing.T) {
	for _, begin := range []string{"BZh91AY&SY", "\xfd7zXZ\x00\x00", "PK\x03\x04\x14\x00"} {
		if r, err := Open(Options{Files: []string{write(t, "access.log", begin+"\x01\x02")}}); err == nil || !strings.Contains(err.Error(), "bzip2 -dc") {
			t.Errorf("a file that begins with %q gives %v and the error %v; want one with the remedy", begin, r, err)
		}
	}
}
