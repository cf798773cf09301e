package logs

import (
	"strings"
	"testing"
)

// formatCases are lines of each format, with what they give. An empty format is found.
func formatCases() []formatCase {
	return []formatCase{
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
		{
			"caddy", "", `{"level":"info","ts":1795510800.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"shop.example:443","uri":"/a?b=%20","headers":{"User-Agent":["curl/7.82.0"],"X-A":["1","2"],"Cookie":["REDACTED"]}},"bytes_read":3,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"X-Units":["7"]}}`,
			`2026-11-24T09:00:00.499071 +929 192.0.2.1 GET shop.example/a?b=%20 200 sent=10900 received=3 header:User-Agent="curl/7.82.0" header:X-A="1\x00\x002" response:X-Units="7"`,
		},
		{
			"traefik's JSON", "", `{"ClientAddr":"192.0.2.1:1234","ClientHost":"192.0.2.1","DownstreamContentSize":13,"DownstreamStatus":429,"Duration":1234567,"OriginContentSize":0,"RequestContentSize":2,"RequestHost":"shop.example","RequestMethod":"POST","RequestPath":"/a?b","StartLocal":"2026-11-24T10:00:00.123456789+01:00","StartUTC":"2026-11-24T09:00:00.123456789Z","level":"info","msg":"","request_User-Agent":"curl","time":"2026-11-24T10:00:00+01:00"}`,
			`2026-11-24T09:00:00.123456 +1234 192.0.2.1 POST shop.example/a?b 429 sent=13 received=2 header:User-Agent="curl"`,
		},
		{
			"traefik's text", "", `192.0.2.1 - - [24/Nov/2026:09:00:00 +0000] "GET /a?b HTTP/1.1" 200 13 "-" "curl" 3 "web@docker" "http://10.0.0.2:80" 12ms`,
			`2026-11-24T09:00:00.000000 +12000 192.0.2.1 GET /a?b 200 sent=13 received=-1 header:User-Agent="curl"`,
		},
		{
			"envoy's text", "", `[2026-11-24T09:00:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 5 226 100 "10.0.35.28, 192.0.2.1" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`,
			`2026-11-24T09:00:00.310000 +226000  POST locations/api/v1/locations 204 sent=5 received=154 header:X-Forwarded-For="10.0.35.28, 192.0.2.1" header:User-Agent="nsq2http"`,
		},
		{
			"envoy's JSON", "envoy", `{"start_time":"2026-11-24T09:00:00.310Z","method":"GET","x-envoy-origin-path":"/a?b","protocol":"HTTP/1.1","response_code":200,"response_flags":"-","bytes_received":0,"bytes_sent":5,"duration":226,"x-forwarded-for":"192.0.2.1","user-agent":"curl \"8\"",":authority":"shop.example:80","downstream_remote_address":"192.0.2.1:4444"}`,
			`2026-11-24T09:00:00.310000 +226000 192.0.2.1 GET shop.example/a?b 200 sent=5 received=0 header:User-Agent="curl \"8\"" header:X-Forwarded-For="192.0.2.1"`,
		},
		{
			"envoy", `envoy:%START_TIME% %DOWNSTREAM_REMOTE_ADDRESS% %REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE% %REQ(X-API-KEY):20%\n`, `2026-11-24T09:00:00.310Z [2001:db8::1]:4444 GET /a?b 200 k`,
			`2026-11-24T09:00:00.310000 +-1 2001:db8::1 GET /a?b 200 sent=-1 received=-1 header:X-Api-Key="k"`,
		},
		{
			"haproxy", "", `Nov 24 10:00:00 lb haproxy[14389]: 2001:db8::1:33317 [24/Nov/2026:10:00:00.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`,
			`2026-11-24T10:00:00.655000 +109000 2001:db8::1 GET /index.html 200 sent=-1 received=-1`,
		},
		{
			"haproxy's own format", `haproxy:%ci:%cp [%tr] %Ta %ST %{+Q}[var(txn.header_x_api_key)] %{+Q}r`, `192.0.2.1:1 [24/Nov/2026:10:00:00.655] 3 200 "k" "GET /a HTTP/1.1"`,
			`2026-11-24T10:00:00.655000 +3000 192.0.2.1 GET /a 200 sent=-1 received=-1 header:X-Api-Key="k"`,
		},
		{
			"alb", "", `h2 2026-11-24T09:00:01.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET https://www.example.com:443/a?b HTTP/2.0" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2026-11-24T09:00:00.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1234`,
			`2026-11-24T09:00:00.364000 +1000 192.0.2.1 GET www.example.com/a?b 200 sent=-1 received=-1 header:User-Agent="curl/7.46.0"`,
		},
		{
			"cloudfront", "", "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-host-header time-taken\n2026-11-24\t09:00:00\tLAX1\t2390282\t192.0.2.202\tGET\td111111abcdef8.cloudfront.net\t/soundtrack/my%20dog.html\t304\t-\tMozilla/5.0%20(%2525)\ta=b\tzip=98101\twww.example.com\t0.002\n",
			`2026-11-24T08:59:59.998000 +2000 192.0.2.202 GET www.example.com/soundtrack/my%20dog.html?a=b 304 sent=-1 received=-1 header:User-Agent="Mozilla/5.0 (%25)" header:Cookie="zip=98101"`,
		},
		{
			"json", `json:end=t,duration_ms=took,client=c.ip,method=m,path=p,query=q,status=s,header:x-api-key=h.key`, `{"t":"2026-11-24 09:00:00.5","took":250,"c":{"ip":"192.0.2.1"},"m":"GET","p":"/a","q":"b=1","s":"200","h":{"key":"k"}}`,
			`2026-11-24T09:00:00.250000 +250000 192.0.2.1 GET /a?b=1 200 sent=-1 received=-1 header:X-Api-Key="k"`,
		},
		{
			"sluice's JSON", "", `{"time":"2026-11-24T09:00:00.123456Z","edge":"proxy","client_ip":"192.0.2.1","method":"GET","host":"shop.example","path":"/a","action":"deny","allowed":false,"status":429,"reason":"limited","rule":"per-ip","limit":"per-ip","key":"ab12","cost":2,"remaining":0,"retry_after_ms":1000,"duration_us":17}`,
			`2026-11-24T09:00:00.123456 +-1 192.0.2.1 GET shop.example/a 429 sent=-1 received=-1 {Action:deny Dry:false Aside:false Rule:per-ip Took:17}`,
		},
		{
			"sluice's combined", "", `192.0.2.1 - - [24/Nov/2026:10:00:00 +0100] "GET /a HTTP/1.1" 429 - "-" "curl" action=deny rule=per-ip remaining=0 wait=1.000 duration=0.000017`,
			`2026-11-24T09:00:00.000000 +-1 192.0.2.1 GET /a 429 sent=-1 received=-1 header:User-Agent="curl" {Action:deny Dry:false Aside:false Rule:per-ip Took:0}`,
		},
	}
}

// wantedNames are names that rules read.
func wantedNames() []Name {
	return []Name{
		{"header", "Referer"},
		{"header", "User-Agent"},
		{"header", "x-api-key"},
		{"header", "X-Forwarded-For"},
		{"header", "X-A"},
		{"cookie", "sid"},
		{"response", "X-Units"},
	}
}

type formatCase struct{ name, format, lines, want string }

// Lines of each format give their requests, with the times at which they began.
func TestEachFormatGivesItsRequests(t *testing.T) {
	utc(t)
	for _, c := range formatCases() {
		t.Run(c.name, func(t *testing.T) {
			records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(c.lines), Format: c.format, Wanted: wantedNames()})
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

// A format is found beside lines that are not of it: garbage, other JSON, and lines that were cut off.
func TestFormatsAreFoundBesideBadLines(t *testing.T) {
	utc(t)
	for _, c := range formatCases() {
		if strings.Contains(c.format, ":") {
			continue
		}
		text := strings.TrimSuffix(c.lines, "\n") + "\n"
		from := strings.LastIndexByte(text[:len(text)-1], '\n') + 1
		header, good := text[:from], text[from:]
		for _, bad := range []string{"bad\n", "{\n", "{}\n", "\x00\xff [\n", good[:len(good)/2] + "\n"} {
			for _, text := range []string{bad + good + good, good + bad + good, good + good + bad, bad + good} {
				records, r := read(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(header + text), Wanted: wantedNames()})
				if want := strings.Count(text, good); len(records) < want || r.Stats().Bad > 1 {
					t.Errorf("%s: %d records of %d are read as %s beside %q: %+v", c.name, len(records), want, r.Layout().Format, bad, r.Stats())
				}
			}
		}
	}
}
