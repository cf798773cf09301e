package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sluicehq/sluice/internal/soak"
)

// written is a request that a server logs.
type written struct {
	at, duration          int64 // in microseconds, of whole milliseconds
	client, target, value string
	status, sent          int
}

// hexed writes bytes as nginx does, and Apache in requests that it escapes.
func hexed(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// writings are writers of formats.
var writings = []struct {
	name, format, header string
	line                 func(w *written) string
}{
	{"nginx", `nginx:$remote_addr $msec "$request" $status $body_bytes_sent $request_time "$http_x_key"`, "", func(w *written) string {
		end := (w.at + w.duration) / 1000
		return fmt.Sprintf(`%s %d.%03d "GET %s HTTP/1.1" %d %d %d.%03d "%s"`, w.client, end/1000, end%1000, hexed(w.target), w.status, w.sent, w.duration/1e6, w.duration/1000%1000, hexed(w.value)) //nolint:gocritic // nginx escapes in another way
	}},
	{"apache", `apache:%a %{usec}t \"%r\" %>s %b %D \"%{X-Key}i\"`, "", func(w *written) string {
		quoted := strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`, `\`, `\\`)
		return fmt.Sprintf(`%s %d "GET %s HTTP/1.1" %d %d %d "%s"`, w.client, w.at, quoted.Replace(w.target), w.status, w.sent, w.duration, quoted.Replace(w.value)) //nolint:gocritic // Apache escapes in another way
	}},
	{"caddy", "caddy", "", func(w *written) string {
		end := w.at + w.duration
		text, _ := json.Marshal(map[string]any{
			"ts": json.Number(fmt.Sprintf("%d.%06d", end/1e6, end%1e6)), "duration": json.Number(fmt.Sprintf("%d.%06d", w.duration/1e6, w.duration%1e6)),
			"status": w.status, "size": w.sent, "request": map[string]any{
				"client_ip": w.client, "method": "GET", "uri": w.target, "headers": map[string][]string{"X-Key": {w.value}},
			},
		})
		return string(text)
	}},
	{"cloudfront", "cloudfront", "#Version: 1.0\n#Fields: timestamp(ms) c-ip cs-method cs-uri-stem sc-status sc-content-len time-taken cs(X-Key)\n", func(w *written) string {
		end := (w.at + w.duration) / 1000
		return fmt.Sprintf("%d\t%s\tGET\t%s\t%d\t%d\t%d.%03d\t%s", end, w.client, w.target, w.status, w.sent, w.duration/1e6, w.duration/1000%1000, url.PathEscape(w.value))
	}},
}

// What a server writes is read back equal, in the order of the beginnings: shuffled, split, compressed and merged, over many
// chunks of memory that are used again.
func TestWrittenIsRead(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	letters := []string{"a", "/", "?", "=", "%20", "é", `"`, `\`, "[", "]", "x22", "{", "'", "<", "-", "日"}
	text := func(n int, more ...string) string {
		var b strings.Builder
		for range 1 + random.IntN(n) {
			b.WriteString(append(letters, more...)[random.IntN(len(letters)+len(more))])
		}
		return b.String()
	}
	n := soak.Times(t, 4_000)
	all := make([]written, n)
	for i := range all {
		all[i] = written{
			at: 1_795_510_800_000_000 + int64(i)*1000, duration: random.Int64N(900) * 1000, client: fmt.Sprintf("192.0.2.%d", random.IntN(256)),
			target: "/" + text(40), value: "v" + text(30, " ", "\t", "\n"), status: 200 + random.IntN(400), sent: random.IntN(1e6),
		}
		if random.IntN(2) == 0 {
			all[i].client = fmt.Sprintf("2001:db8::%x", 1+random.IntN(1e4))
		}
	}
	for _, w := range writings {
		t.Run(w.name, func(t *testing.T) {
			var parts [3]bytes.Buffer
			for i := range parts {
				parts[i].WriteString(w.header)
			}
			for from := 0; from < n; from += 1000 { // shuffled within a second
				for _, i := range random.Perm(1000) {
					fmt.Fprintln(&parts[random.IntN(3)], w.line(&all[from+i]))
				}
			}
			encoder, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			files := []string{write(t, "a", parts[0].String()), write(t, "b.gz", gzipped(t, parts[1].String())), write(t, "c", string(encoder.EncodeAll(parts[2].Bytes(), nil)))}
			r, err := Open(Options{Files: files, Format: w.format, Wanted: []Name{{"header", "X-Key"}}, Reorder: 3 * time.Second, Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var rec Record
			read := 0
			for ; r.Next(&rec); read++ {
				want := &all[read]
				got := written{rec.At, rec.Duration, rec.Client, rec.Target, rec.Values[0], rec.Status, int(rec.Sent)}
				if got != *want {
					t.Fatalf("record %d is %+v, want %+v", read, got, *want)
				}
			}
			if r.Err() != nil || read != n || r.Stats().Late != 0 {
				t.Errorf("%d records of %d are read: %v, %+v", read, n, r.Err(), r.Stats())
			}
			if len(r.chunks.all) > 30 {
				t.Errorf("the reader has %d chunks for a window of three seconds, want at most 30", len(r.chunks.all))
			}
		})
	}
}
