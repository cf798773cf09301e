package logs

import (
	"strings"
	"testing"
)

// Lines of each format give their requests, with the times at which they began.
func TestFormats(t *testing.T) {
	for _, c := range []struct{ name, format, lines, want string }{
		{
			"combined", "combined", `192.0.2.1 - bob [24/Nov/2026:10:00:00 +0100] "GET /a?b=1 HTTP/1.1" 200 15 "-" "a \"b\" \x22"`,
			`2026-11-24T09:00:00.000000 +-1 192.0.2.1 GET /a?b=1 200 sent=15 received=-1 header:User-Agent="a \"b\" \""`,
		},
		{
			"common", "combined", `192.0.2.1 - - [24/Nov/2026:10:00:00 +0100] "GET /a?b=1 HTTP/1.1" 200 15`,
			`2026-11-24T09:00:00.000000 +-1 192.0.2.1 GET /a?b=1 200 sent=15 received=-1`,
		},
		{
			"what is behind", "combined", `192.0.2.1 - - [24/Nov/2026:10:00:00 +0100] "GET / HTTP/1.1" 200 - "r" "-" "192.0.2.7"`,
			`2026-11-24T09:00:00.000000 +-1 192.0.2.1 GET / 200 sent=-1 received=-1 header:Referer="r"`,
		},
		{
			"syslog and a user's name", "combined", `<190>Nov 24 10:00:00 web nginx: 192.0.2.1 - a [b [24/Nov/2026:10:00:00 +0100] "GET http://shop.example:80?x HTTP/1.1" 200 15 "-" "-"`,
			`2026-11-24T09:00:00.000000 +-1 192.0.2.1 GET shop.example/?x 200 sent=15 received=-1`,
		},
		{
			"nginx", `nginx:$remote_addr ${host} [$time_local] $msec "$request" $status $request_time "$upstream_addr" $upstream_response_time $cookie_sid "$http_x_api_key"`,
			`2001:db8::1 shop.example [24/Nov/2026:10:00:00 +0100] 1795510800.250 "POST /a HTTP/2.0" 429 1.250 "10.0.0.1:80, 10.0.0.2:80" 0.100, 0.200 s1 "k"`,
			`2026-11-24T08:59:59.000000 +1250000 2001:db8::1 POST shop.example/a 429 sent=-1 received=-1 cookie:sid="s1" header:X-Api-Key="k"`,
		},
		{
			"nginx's parts of a request", `nginx:$time_iso8601|$request_method|$uri|$args|$remote_addr`, `2026-11-24T10:00:00+01:00|GET|/a|b=c|192.0.2.1`,
			`2026-11-24T09:00:00.000000 +-1 192.0.2.1 GET /a?b=c 0 sent=-1 received=-1`,
		},
		{
			"apache", `apache:%v %h %l %u %t \"%r\" %>s %b %T %D "%{X-Api-Key}i" "%{sid}C" %%`,
			`shop.example 192.0.2.1 - - [24/Nov/2026:10:00:00 +0100] "GET /a\\b HTTP/1.1" 404 - 0 1500 "-" "s1" %`,
			`2026-11-24T09:00:00.000000 +1500 192.0.2.1 GET shop.example/a\b 404 sent=-1 received=-1 cookie:sid="s1"`,
		},
		{
			"apache's exact times", `apache:%a %{usec}t %t "%m %U%q" %s`, `192.0.2.1 1795510800123456 [24/Nov/2026:10:00:00 +0100] "GET /a?b" 200`,
			`2026-11-24T09:00:00.123456 +-1 192.0.2.1 GET /a?b 200 sent=-1 received=-1`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(c.lines), Format: c.format})
			var got []string
			for i := range records {
				got = append(got, describe(r.Layout(), &records[i]))
			}
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("the lines give\n%s\nwant\n%s\nstatistics: %+v", text, c.want, r.Stats())
			}
		})
	}
}
