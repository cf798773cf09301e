package threats

import (
	"fmt"
	"strings"
)

// spoilFraming adds a body, whose length is often said in several ways, and which often holds a request.
func (g gen) spoilFraming(m *message) {
	if g.chance(25) {
		g.leaveUnread(m)
		return
	}
	if g.chance(70) {
		m.method = "POST"
	}
	if g.chance(60) && m.path != "/login" {
		m.path, m.query = "/public/body", "" // allowed, so that the body is passed on
	}
	inner := g.pick(hidden, "x=1", strings.TrimSuffix(hidden, "\r\n\r\n")+"\r\nX-Rest: ", "", "user=eve", "GET /admin/hidden HTTP/1.0\r\n\r\n")
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
	length := func(n int) string {
		return g.mostly("Content-Length: ", "content-length:", "Content-Length : ", "Content_Length: ", " Content-Length: ", "Content-Length\x00: ", "Content-Length:\t") +
			g.mostly(fmt.Sprint(n), fmt.Sprintf("+%d", n), fmt.Sprintf("%d, %d", n, n), fmt.Sprintf("0x%x", n), fmt.Sprintf("%d ", n), "-1", "0", fmt.Sprintf("0%d", n), fmt.Sprintf("%d\x00", n), fmt.Sprintf("%d.0", n), "", "1", fmt.Sprintf("%d,0", n), fmt.Sprintf("\"%d\"", n), "18446744073709551616", fmt.Sprintf("%d;", n), fmt.Sprintf("%d\r\n 0", n))
	}
	coding := func() string {
		return g.mostly("Transfer-Encoding: ", "transfer-encoding:", "Transfer-Encoding : ", "Transfer_Encoding: ", " Transfer-Encoding: ", "Transfer-Encoding\x00: ", "Transfer-Encoding:\t", "X: x\nTransfer-Encoding: ") +
			g.mostly("chunked", "Chunked", "xchunked", "chunked ", "\tchunked", "chunked\x0b", "\x0bchunked", "chunked, chunked", "identity", "chunked, identity", "identity, chunked", "gzip, chunked", "\"chunked\"", "chunked;x", "chunked\x00", "", "chunked,", ",chunked", "\r\n chunked", "cow", "chu\u212aned")
	}
	switch g.IntN(6) {
	case 0:
		m.framing, m.body = []string{length(len(inner))}, inner
	case 1:
		m.framing, m.body = []string{coding()}, chunked
	case 2:
		m.framing = g.shuffle([]string{length(g.pick2(len(chunked), len(inner), 4)), coding()})
		m.body = chunked
	case 3:
		m.framing = g.shuffle([]string{length(g.pick2(4, 5, 6)), coding()})
		m.body = "0\r\n\r\n" + inner
	case 4:
		m.framing = []string{length(len(inner)), length(g.pick2(len(inner), 0, 1))}
		m.body = inner
	default:
		m.framing = []string{coding()}
		if g.chance(30) {
			m.framing = append(m.framing, coding())
		}
		m.body = g.spoilChunks(inner)
	}
}

// leaveUnread adds a body that some services do not read, and that holds a request.
func (g gen) leaveUnread(m *message) {
	m.method = g.pick("GET", "HEAD", "DELETE", "OPTIONS")
	m.path, m.query = "/public/body", ""
	m.framing, m.body = []string{fmt.Sprintf("Content-Length: %d", len(hidden))}, hidden
	if g.chance(50) {
		m.framing, m.body = []string{"Transfer-Encoding: chunked"}, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	}
}

// pick2 returns one of some numbers.
func (g gen) pick2(of ...int) int { return of[g.IntN(len(of))] }

// spoilChunks writes a chunked body in another way, with trailers.
func (g gen) spoilChunks(inner string) string {
	n := len(inner)
	size := g.mostly(fmt.Sprintf("%x", n), fmt.Sprintf("%X", n), fmt.Sprintf("0x%x", n), fmt.Sprintf("00%x", n), fmt.Sprintf("%x;x", n), fmt.Sprintf("%x;x=\"a\r\nb\"", n), fmt.Sprintf("%x ;x", n), fmt.Sprintf("%x;\n%s", n, "x"), fmt.Sprintf("%x ", n), fmt.Sprintf(" %x", n), fmt.Sprintf("+%x", n),
		fmt.Sprintf("ffffffff%08x", n), fmt.Sprintf("1%016x", n), fmt.Sprintf("%x\x00", n), fmt.Sprintf("%x,", n), fmt.Sprintf("%d", n), "-1", "", "0", fmt.Sprintf("%x;%s", n, strings.ReplaceAll(hidden, "\r\n", "\r")), fmt.Sprintf("%x\x0b", n), fmt.Sprintf("%x;%s", n, strings.Repeat("x", 5000)))
	eol := g.mostly("\r\n", "\n", "\r", "", "\r\r\n", "xx", "\n\r")
	trailer := ""
	for g.chance(40) {
		trailer += g.pick(g.forgery(), "X-User: eve", "Host: api.example.com", "Content-Length: 5", "Transfer-Encoding: chunked", "X: y", "Cookie: session=eve", "Connection: close", "no colon", " folded", "X : y", "GET /admin/hidden HTTP/1.1") + g.pick("\r\n", "\r\n", "\n", "\r")
	}
	return size + g.mostly("\r\n", "\n", "\r") + inner + eol + g.mostly("0", "00", "0;x", "0 ", "0x0", "-0") + "\r\n" + trailer + g.mostly("\r\n", "\n", "", "\r")
}

// spoilUpgrade wants another protocol, and goes on as if it had it.
func (g gen) spoilUpgrade(m *message) {
	m.path, m.query = "/public/upgrade", ""
	protocol := g.pick("h2c", "websocket", "WebSocket", "foo", "h2c, websocket", "websocket, h2c", "TLS/1.0", "HTTP/2.0", "websocket/13", " h2c", "h2c ", "websocket;x", "websockets", "", "\"websocket\"", "webSocKet\x0b", "h2", "HTTP/1.1")
	m.lines = append(m.lines,
		g.mostly("Upgrade: ", "upgrade:", "Upgrade : ", "UPGRADE:\t")+protocol,
		"Connection: "+g.pick("Upgrade", "Upgrade", "upgrade", "Upgrade, HTTP2-Settings", "keep-alive, Upgrade", "Upgrade, close", "\"Upgrade\"", "Upgrade,", "upgrade;x", "HTTP2-Settings", "up\u0433rade"))
	if g.chance(50) {
		m.lines = append(m.lines, "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
	}
	if g.chance(30) {
		m.lines = append(m.lines, "Sec-WebSocket-Version: "+g.pick("13", "12", "x"), "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
	}
	if g.chance(20) {
		m.lines = append(m.lines, "Upgrade: "+g.pick("websocket", "h2c"))
	}
	g.shuffle(m.lines)
	m.after = append(m.after, hidden)
}

// forge adds headers that identify another client.
func (g gen) forge(m *message) {
	if g.chance(70) {
		m.path, m.query = "/public/forged", "" // allowed, so that the service gets the headers
	}
	for range g.some(3) {
		line := g.forgery()
		m.lines = append(m.lines, line)
		if name, _, _ := strings.Cut(line, ":"); g.chance(15) {
			m.lines = append(m.lines, "Connection: "+g.pick("", "close, ", "keep-alive, ")+name)
		}
	}
}

// forgery is a header that identifies another client.
func (g gen) forgery() string {
	name := g.pick("X-Forwarded-For", "X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "X-Client-IP", "X-Cluster-Client-IP", "Fastly-Client-IP", "Client-IP", "X-Originating-IP",
		"X-Remote-IP", "X-Remote-Addr", "X-Forwarded", "Forwarded-For", "Fly-Client-IP", "X-Azure-ClientIP", "X-Appengine-User-IP", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-ProxyUser-Ip", "WL-Proxy-Client-IP", "Proxy-Client-IP", "X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded-Proto", "X-Forwarded-Port")
	if g.chance(30) {
		name = strings.ReplaceAll(name, "-", g.pick("_", ".", "-", "--", "_-"))
	}
	if g.chance(20) {
		name = g.pick(strings.ToUpper(name), strings.ToLower(name), name+" ", " "+name, name+"\t", strings.Replace(name, "-", "_", 1))
	}
	value := forgedAddress
	if strings.HasSuffix(name, "Host") || strings.HasSuffix(name, "Server") {
		value = forgedHost
	}
	return name + g.mostly(": ", ":", ":\t", ": \r\n ") + g.mostly("", "for=", "127.0.0.1, ", "\"", "10.0.0.1,") + value + g.mostly("", ", 127.0.0.1", ":80", "\"", ";proto=https;host="+forgedHost)
}
