package threats

import (
	"math/rand/v2"
	"strings"
)

// message is one request, in pieces that attacks write in other ways. The zero value of a piece is
// its usual text.
type message struct {
	lead    string // before the request line
	method  string
	space   string // between method and target
	prefix  string // before the path: an absolute form
	path    string
	query   string // with its question mark
	tail    string // after the target
	space2  string // between target and version
	version string
	eol     string // the end of each line
	host    string
	hosts   []string // lines in place of "Host: host"
	lines   []string
	framing []string // lines about the body
	body    string
	after   []string // what follows on the connection
}

// canonical returns a copy with the usual text for what is not set.
func (m message) canonical() *message {
	for piece, usual := range map[*string]string{&m.method: "GET", &m.space: " ", &m.path: "/public/x", &m.space2: " ", &m.version: "HTTP/1.1", &m.eol: "\r\n", &m.host: "www.example.com"} {
		if *piece == "" {
			*piece = usual
		}
	}
	m.hosts = []string{"Host: " + m.host}
	m.lines = append([]string(nil), m.lines...)
	return &m
}

// token is a piece of an attack. While an attack is minimized, its text is replaced by the plain one.
type token struct{ text, plain string }

// attack is what is sent on one connection.
type attack []token

func (a attack) String() string {
	var b strings.Builder
	for _, t := range a {
		b.WriteString(t.text)
	}
	return b.String()
}

// tokens returns the pieces of a message, and of the canonical message that it was made from.
func (m *message) tokens(plain *message) attack {
	a := attack{{m.lead, ""}}
	for _, t := range []token{
		{m.method, plain.method},
		{m.space, " "},
		{m.prefix, ""},
		{m.path, plain.path},
		{m.query, plain.query},
		{m.tail, ""},
		{m.space2, " "},
		{m.version, "HTTP/1.1"},
		{m.eol, "\r\n"},
	} {
		a = append(a, t)
	}
	list := func(lines, plain []string) {
		for i := range max(len(lines), len(plain)) {
			var t token
			if i < len(lines) {
				t.text = lines[i] + m.eol
			}
			if i < len(plain) {
				t.plain = plain[i] + "\r\n"
			}
			a = append(a, t)
		}
	}
	list(m.hosts, plain.hosts)
	list(m.lines, plain.lines)
	tag := "X-Case: " + tagWord + "\r\n"
	a = append(a, token{tag, tag})
	list(m.framing, nil)
	a = append(a, token{m.eol, "\r\n"}, token{m.body, ""})
	for _, text := range m.after {
		a = append(a, token{text, ""})
	}
	return a
}

// text returns a message as it is sent.
func (m *message) text() string { return m.tokens(m).String() }

// simple returns a complete request.
func simple(target string, lines ...string) string {
	all := append([]string{"GET " + target + " HTTP/1.1", "Host: www.example.com", "X-Case: " + tagWord}, lines...)
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

// gen makes attacks at random.
type gen struct {
	*rand.Rand
	// usual is the percentage of pieces that are written in the usual way. Attacks with a few unusual
	// pieces get further than others.
	usual int
}

// newGen returns the generator of one attack of a run.
func newGen(seed uint64, number int) gen {
	g := gen{Rand: rand.New(rand.NewPCG(seed, uint64(number)))}
	g.usual = []int{0, 50, 80, 95}[g.IntN(4)]
	return g
}

// mostly returns the first text, which is the usual one, or any of them.
func (g gen) mostly(of ...string) string {
	if g.chance(g.usual) {
		return of[0]
	}
	return g.pick(of...)
}

func (g gen) chance(percent int) bool  { return g.IntN(100) < percent }
func (g gen) pick(of ...string) string { return of[g.IntN(len(of))] }
func (g gen) some(most int) int        { return 1 + g.IntN(most) }
func (g gen) shuffle(list []string) []string {
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// attack makes an attack on one of the protections.
func (g gen) attack() attack {
	p := &protections[g.IntN(len(protections))]
	plain := p.requests[g.IntN(len(p.requests))].canonical()
	m := plain.canonical()
	if g.chance(85) {
		p.spoil(g, m)
	}
	for g.chance(40) {
		g.spoil(m)
	}
	if g.chance(25) {
		m.after = append(m.after, hidden)
	}
	var a attack
	if g.chance(10) {
		a = append(a, token{simple("/public/first"), ""})
	}
	a = append(a, m.tokens(plain)...)
	return append(a, token{last, ""})
}

// hidden is a request that must not reach its handler, wherever it is written. With last, the
// client closes the connection.
var (
	hidden = simple("/admin/hidden")
	last   = simple("/public/last", "Connection: close")
)

// spoil writes a message in another way that is not about its protection.
func (g gen) spoil(m *message) {
	switch g.IntN(20) {
	case 0, 1:
		g.spoilMethod(m)
	case 2, 3:
		g.spoilPath(m)
	case 4:
		g.spoilHost(m)
	case 5, 6:
		g.spoilForm(m)
	case 7, 8, 9:
		g.spoilFraming(m)
	case 10, 11:
		g.spoilUpgrade(m)
	case 12, 13, 14:
		g.forge(m)
	case 15:
		m.eol = g.pick("\n", "\r", "\r\r\n", "\r\n\x00", " \r\n")
	case 16:
		m.version = g.pick("HTTP/1.0", "HTTP/0.9", "", "HTTP/2.0", "http/1.1", "HTTP/1.10", "HTTP/1.2", "HTTP/11", "HTTP/1.1 x", "HTTP/1", "HTTP/01.1", "ICY")
		if g.chance(50) {
			m.version = "HTTP/1.0"
		}
	case 17:
		m.space, m.space2 = g.pick(" ", "  ", "\t", "\x0b", "\x0c", "\xa0"), g.pick(" ", "  ", "\t", "\x0b", "\x00 ", "")
	case 18:
		m.lead = g.pick("\r\n", "\n", "\r\n\r\n", " ", "\x00", "\t", "\xef\xbb\xbf", "x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	case 19:
		m.lines = append(m.lines, g.pick("Connection: close", "Connection: keep-alive", "Connection: X-Case, Host", "Connection: Content-Length", "Connection: Transfer-Encoding",
			"Expect: 100-continue", "Expect: 200-ok", "Range: bytes=0-0", "Proxy-Connection: keep-alive", "Keep-Alive: timeout=0", "TE: trailers, chunked", "Max-Forwards: 0",
			"X-Original-URL: /admin/panel", "X-Rewrite-URL: /admin/panel", "X-Original-Url: /area/shut", "X_Original_URL: /admin/panel", "X-Original-Path: /admin/panel", "X-HTTP-Path-Override: /admin/panel"))
	}
}
