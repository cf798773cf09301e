package logs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
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

// writing is a writer of a format.
type writing struct {
	name, format, header string
	line                 func(w *written) string
	set                  []Setting
	value                Name                    // which part of requests has the value; X-Key if it is zero
	read                 func(w written) written // what the format keeps, if not all
}

// writings are writers of formats.
var writings = []writing{
	{name: "nginx", format: `nginx:$remote_addr $msec "$request" $status $body_bytes_sent $request_time "$http_x_key"`, line: func(w *written) string {
		end := (w.at + w.duration) / 1000
		return fmt.Sprintf(`%s %d.%03d "GET %s HTTP/1.1" %d %d %d.%03d "%s"`, w.client, end/1000, end%1000, hexed(w.target), w.status, w.sent, w.duration/1e6, w.duration/1000%1000, hexed(w.value)) //nolint:gocritic // nginx escapes in another way
	}},
	{name: "apache", format: `apache:%a %{usec}t \"%r\" %>s %b %D \"%{X-Key}i\"`, line: func(w *written) string {
		quoted := strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`, `\`, `\\`)
		return fmt.Sprintf(`%s %d "GET %s HTTP/1.1" %d %d %d "%s"`, w.client, w.at, quoted.Replace(w.target), w.status, w.sent, w.duration, quoted.Replace(w.value)) //nolint:gocritic // Apache escapes in another way
	}},
	{name: "caddy", format: "caddy", line: func(w *written) string {
		end := w.at + w.duration
		text, _ := json.Marshal(map[string]any{
			"ts": json.Number(fmt.Sprintf("%d.%06d", end/1e6, end%1e6)), "duration": json.Number(fmt.Sprintf("%d.%06d", w.duration/1e6, w.duration%1e6)),
			"status": w.status, "size": w.sent, "request": map[string]any{
				"client_ip": w.client, "method": "GET", "uri": w.target, "headers": map[string][]string{"X-Key": {w.value}},
			},
		})
		return string(text)
	}},
	{name: "cloudfront", format: "cloudfront", header: "#Version: 1.0\n#Fields: timestamp(ms) c-ip cs-method cs-uri-stem sc-status sc-content-len time-taken cs(X-Key)\n", line: func(w *written) string {
		end := (w.at + w.duration) / 1000
		return fmt.Sprintf("%d\t%s\tGET\t%s\t%d\t%d\t%d.%03d\t%s", end, w.client, w.target, w.status, w.sent, w.duration/1e6, w.duration/1000%1000, url.PathEscape(w.value))
	}},
	{name: "traefik", format: "traefik", line: func(w *written) string {
		return jsonLine(map[string]any{
			"StartUTC": begun(w).Format(time.RFC3339Nano), "Duration": w.duration * 1000, "ClientHost": w.client, "RequestMethod": "GET", "RequestPath": w.target,
			"DownstreamStatus": w.status, "DownstreamContentSize": w.sent, "request_X-Key": w.value,
		})
	}},
	{name: "envoy", format: "envoy", set: []Setting{{Name{"header", "X-Key"}, "key"}}, line: func(w *written) string {
		return jsonLine(map[string]any{
			"start_time": begun(w).Format("2006-01-02T15:04:05.000Z"), "duration": w.duration / 1000, "downstream_remote_address": net.JoinHostPort(w.client, "40000"),
			"method": "GET", "path": w.target, "response_code": w.status, "bytes_sent": w.sent, "key": w.value,
		})
	}},
	{
		name: "haproxy", format: `haproxy:%ci:%cp [%tr] %Ta %ST %{+Q,+E}[var(txn.header_x_key)] %{+Q}r`,
		line: func(w *written) string {
			return fmt.Sprintf(`%s:40000 [%s] %d %d "%s" "GET %s HTTP/1.1"`, w.client, begun(w).Format("02/Jan/2006:15:04:05.000"), w.duration/1000, w.status, //nolint:gocritic // HAProxy escapes in another way
				strings.NewReplacer(`"`, `\"`, `\`, `\\`, "]", `\]`).Replace(strings.ReplaceAll(w.value, "\n", " ")), sharp(w.target))
		},
		read: func(w written) written {
			w.value, w.sent = strings.ReplaceAll(w.value, "\n", " "), -1 // no header has a line feed; the size includes headers
			return w
		},
	},
	{
		name: "alb", format: "alb", value: Name{"header", "User-Agent"},
		line: func(w *written) string {
			return fmt.Sprintf(`h2 %s app/lb/1 %s 10.0.0.1:80 0.000 %d.%06d 0.000 %d 200 34 366 "GET https://shop.example:443%s HTTP/2.0" "%s" ECDHE TLSv1.2 arn:aws:x "Root=1" "-" "-" 0 %s "forward" "-" "-"`, //nolint:gocritic // it escapes in another way
				begun(w).Add(time.Duration(w.duration)*time.Microsecond).Format("2006-01-02T15:04:05.000000Z"), net.JoinHostPort(w.client, "2817"), w.duration/1e6, w.duration%1e6, w.status,
				hexed(w.target), hexed(w.value), begun(w).Format("2006-01-02T15:04:05.000000Z"))
		},
		read: func(w written) written {
			w.sent = -1 // with headers
			return w
		},
	},
	{
		name: "sluice", format: "sluice", set: []Setting{{Name{"header", "X-Key"}, "key_header"}},
		line: func(w *written) string {
			return jsonLine(map[string]any{
				"time": begun(w).Format("2006-01-02T15:04:05.000000Z"), "client_ip": w.client, "method": "GET", "path": w.target, "status": w.status,
				"action": "allow", "rule": "r", "key_header": w.value,
			})
		},
		read: func(w written) written {
			w.duration, w.sent = -1, -1
			return w
		},
	},
}

func begun(w *written) time.Time { return time.UnixMicro(w.at).UTC() }

func jsonLine(members map[string]any) string {
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// sharp writes a request line as HAProxy does.
func sharp(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == '#' {
			fmt.Fprintf(&b, "#%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// What a server writes is read back equal, in the order of the beginnings: shuffled, split, compressed and merged, over many
// chunks of memory that are used again.
func TestWrittenIsRead(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	letters := []string{"a", "/", "?", "=", "%20", "é", `"`, `\`, "[", "]", "x22", "#", "{", "'", "<", "-", "日"}
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
			value := cmp.Or(w.value, Name{"header", "X-Key"})
			r, err := Open(Options{Files: files, Format: w.format, Set: w.set, Wanted: []Name{value}, Reorder: 3 * time.Second, Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			read := 0
			for rec := range requests(r) {
				want := all[read]
				if w.read != nil {
					want = w.read(want)
				}
				got := written{rec.At, rec.Duration, rec.Client, rec.Target, rec.Values[0], rec.Status, int(rec.Sent)}
				if got != want {
					t.Fatalf("record %d is %+v, want %+v", read, got, want)
				}
				read++
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
