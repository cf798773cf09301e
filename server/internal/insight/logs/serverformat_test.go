package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The format that a server is configured with gives all that a policy reads. The lines are what servers write with it.
func TestLogFormat(t *testing.T) {
	utc(t)
	needed := []Name{{"header", "x-api-key"}, {"header", "X-Plan"}, {"cookie", "sid"}, {"query", "q"}, {"claim", "sub"}, {"header", "X-Api-Key"}}
	for _, c := range []struct{ server, line, names, lacks, want string }{
		{
			"nginx", `127.0.0.1 shop.example 1795753016.966 "GET /a%20b?c=d&e=%22 HTTP/1.1" 200 6 3 0.500 "k\x221 {x}|#\xC3\xA9" "-" "s1"`,
			"[{header X-Api-Key} {header X-Plan} {cookie sid}]", "[{claim sub}]",
			`2026-11-27T04:16:56.466000 +500000 127.0.0.1 GET shop.example/a%20b?c=d&e=%22 200 sent=6 received=3 header:X-Api-Key="k\"1 {x}|#é" cookie:sid="s1"`,
		},
		{
			"apache", `127.0.0.1 "shop.example:80" 1795753017176772 "GET /a%20b?c=d&e=%22 HTTP/1.1" 404 236 525 "k\"1 {x}|#\xc3\xa9" "-" "s1"`,
			"[{header X-Api-Key} {header X-Plan} {cookie sid}]", "[{claim sub}]",
			`2026-11-27T04:16:57.176772 +525 127.0.0.1 GET shop.example/a%20b?c=d&e=%22 404 sent=236 received=-1 header:X-Api-Key="k\"1 {x}|#é" cookie:sid="s1"`,
		},
		{
			"haproxy", `127.0.0.1:37512 [27/Nov/2026:04:20:26.608] 0 200 "shop.example:80" "GET /a%20b?c=d&e=%22 HTTP/1.1" "k\"1 {x}|#é" "" "sid=s1; o=2"`,
			"[{header X-Api-Key} {header X-Plan} {header Cookie}]", "[{claim sub}]",
			`2026-11-27T04:20:26.608000 +0 127.0.0.1 GET shop.example/a%20b?c=d&e=%22 200 sent=-1 received=-1 header:X-Api-Key="k\"1 {x}|#é" header:Cookie="sid=s1; o=2"`,
		},
		{
			"envoy", `{"time":"2026-11-27T04:16:57.176Z","duration":5,"client":"127.0.0.1:4444","method":"GET","target":"/a?b","host":"shop.example","status":200,"sent":6,"received":3,"header_x_api_key":"k\"1","header_cookie":"sid=s1"}`,
			"[{header Cookie} {header X-Api-Key} {header X-Plan}]", "[{claim sub}]",
			`2026-11-27T04:16:57.176000 +5000 127.0.0.1 GET shop.example/a?b 200 sent=6 received=3 header:Cookie="sid=s1" header:X-Api-Key="k\"1"`,
		},
		{
			"caddy", `{"level":"info","ts":1795753017.2417188,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"40208","proto":"HTTP/1.1","method":"GET","host":"shop.example:80","uri":"http://shop.example/a%20b?c=d","headers":{"Cookie":[],"X-Api-Key":["k\"1 {x}|#é"]}},"user_id":"","duration":0.0000131,"size":5,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
			"[{header X-Api-Key} {header X-Plan}]", "[{cookie sid} {claim sub}]",
			`2026-11-27T04:16:57.241705 +13 127.0.0.1 GET shop.example/a%20b?c=d 200 sent=5 received=-1 header:X-Api-Key="k\"1 {x}|#é"`,
		},
		{
			"traefik", `{"ClientHost":"127.0.0.1","DownstreamContentSize":13,"DownstreamStatus":200,"Duration":1234567,"RequestHost":"shop.example","RequestMethod":"GET","RequestPath":"/a?b","StartUTC":"2026-11-27T04:16:57.123456789Z","request_X-Api-Key":"k","request_X-Plan":"free","request_Cookie":"sid=s1"}`,
			"[{header Cookie} {header X-Api-Key} {header X-Plan}]", "[{claim sub}]",
			`2026-11-27T04:16:57.123456 +1234 127.0.0.1 GET shop.example/a?b 200 sent=13 received=-1 header:Cookie="sid=s1" header:X-Api-Key="k" header:X-Plan="free"`,
		},
	} {
		t.Run(c.server, func(t *testing.T) {
			f, err := LogFormat(c.server, needed)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(f.Lacks); got != c.lacks {
				t.Errorf("the log lacks %s, want %s", got, c.lacks)
			}
			golden := filepath.Join("testdata", "logformat", c.server)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(golden, []byte(f.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); string(want) != f.String() {
				t.Errorf("the configuration is\n%s\nwant the text of %s (%v); UPDATE=1 writes it", f, golden, err)
			}
			records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(c.line), Format: f.Format, Wanted: needed})
			l := r.Layout()
			if len(records) != 1 || l.Ends || l.Has&(HasClient|HasMethod|HasTarget|HasQuery|HasStatus|HasDuration) != HasClient|HasMethod|HasTarget|HasQuery|HasStatus|HasDuration {
				t.Fatalf("%d records, layout %+v, statistics %+v", len(records), l, r.Stats())
			}
			names := slices.Clone(l.Names)
			if got := fmt.Sprint(names); got != c.names {
				t.Errorf("the records have %s, want %s", got, c.names)
			}
			if got := describe(l, &records[0]); got != c.want {
				t.Errorf("the line gives\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	if _, err := LogFormat("alb", nil); err == nil || !strings.Contains(err.Error(), "nginx, traefik") {
		t.Errorf("a format that cannot be chosen gives the error %v, want the names of the servers", err)
	}
}
