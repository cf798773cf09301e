package overapi

import (
	"fmt"
	"strings"
)

// The names of subjects.
const (
	getName   = "bare handler, GET"
	floorName = "bare handler, the same JSON"
	checkName = "/v1/check"
	smallName = "/v1/check, batch of 100"
	largeName = "/v1/check, batch of 1,000"
)

// subject is a call to one of the servers.
type subject struct {
	name      string
	server    string
	questions int    // in a call
	call      []byte // the whole request
}

func subjects() []subject {
	return []subject{
		{getName, bareServer, 0, []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")},
		{floorName, bareServer, 1, post(question(1))},
		{checkName, sluiceServer, 1, post(question(1))},
		{smallName, sluiceServer, 100, post(batch(100))},
		{largeName, sluiceServer, 1000, post(batch(1000))},
	}
}

// question is a question about a client.
func question(client int) string {
	return fmt.Sprintf(`{"method":"GET","path":"/api/x","client_ip":"192.0.%d.%d"}`, client/256, client%256)
}

func batch(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = question(i)
	}
	return `{"requests":[` + strings.Join(all, ",") + `]}`
}

func post(body string) []byte {
	const head = "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	return fmt.Appendf(nil, head, len(body), body)
}
