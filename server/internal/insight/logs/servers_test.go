package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines that servers of Debian wrote give the requests that were sent: see testdata/servers/README.md.
func TestLinesOfServersGiveTheirRequests(t *testing.T) {
	utc(t)
	for name, format := range map[string]string{
		"nginx-combined":  "",
		"nginx-own":       `nginx:$remote_addr $host [$time_local] $msec "$request" $status $body_bytes_sent $request_time "$http_x_api_key" "$cookie_sid"`,
		"apache-combined": "",
		"apache-own":      `apache:%v %a [%{usec}t] \"%r\" %>s %b %D \"%{X-Api-Key}i\" \"%{sid}C\"`,
		"caddy":           "",
		"haproxy":         "",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "servers", name)
			records, r := read(t, Options{Files: []string{file + ".log"}, Format: format, Wanted: wantedNames()})
			var got strings.Builder
			got.WriteString(r.Layout().Format + "\n")
			for i := range records {
				got.WriteString(describe(r.Layout(), &records[i]) + "\n")
			}
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file+".txt", []byte(got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file + ".txt"); err != nil || got.String() != string(want) {
				t.Errorf("the lines give\n%swant the text of %s.txt (%v); UPDATE=1 writes it", got.String(), file, err)
			}
			if s := r.Stats(); s.Bad != 0 || s.Lines != int64(len(records))+s.Unread {
				t.Errorf("a line of a real server is not read: %+v", s)
			}
		})
	}
}
