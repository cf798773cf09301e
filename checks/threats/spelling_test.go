package threats

import (
	"fmt"
	"strings"
)

// spoilMethod writes a method in another way, or overrides it.
func (g gen) spoilMethod(m *message) {
	switch g.IntN(6) {
	case 0, 1:
		b := []byte(m.method)
		for i := range b {
			if g.chance(50) {
				b[i] ^= 0x20
			}
		}
		m.method = string(b)
	case 2:
		m.method = g.pick(m.method+" ", " "+m.method, m.method+"\t", m.method+"\x00", m.method+"\x0b", "\x0c"+m.method, m.method+"%20", m.method+".", m.method+";", m.method+",GET", "X"+m.method, m.method+"X", "\""+m.method+"\"")
	case 3:
		m.method = g.pick("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "PROPFIND", "M-SEARCH", "BREW", "QUERY", "SEARCH", freshWord)
	default:
		over := m.method
		m.method = g.pick("GET", "POST", "PUT", "HEAD", "OPTIONS")
		name := g.pick("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "x-http-method-override", "X_HTTP_Method_Override", "X-Http_Method-Override", "X.HTTP.Method.Override")
		m.lines = append(m.lines, name+": "+g.pick(over, strings.ToLower(over), over+" "))
		if g.chance(20) {
			m.lines = append(m.lines, "Connection: "+name)
		}
	}
}

// spoilPath writes a path in another way.
func (g gen) spoilPath(m *message) {
	if g.chance(35) {
		m.path = g.pick(
			"//x", "/x/..", "/public/..", "/area/open/..", "/.", "/", "/%2e", "/%2f", "/..", "/public/%2e%2e", "/public/..%2f", "/public/..;", "/\\x", "\\", "\\x", "///x", "//x/..",
			"/public%2f..", "/area/open/../..", "/area/open/%2e%2e/%2e%2e", "/public/..%00", "//www.example.com", "/%5c", "/%5cx", "//x:80", "//x@y", "/;x", "/;", "/%09", "/x;/..", "/area/open/..%2f..",
			"/public/x%2f..%2f..", "/area/open/%252e%252e", "/area/open/..%252f..", "/public/.%2e", "/%2e%2e", "*", ".", "", "/public/\\..", "/public/..\\", "/public/..%5c", "/%2f%2fx", "/%2fx", "%2f", "/public/%2e%2e%2f",
		) + m.path
	}
	if m.path == "" {
		m.path = "/"
	}
	for range g.IntN(3) {
		i := g.IntN(len(m.path))
		m.path = m.path[:i] + g.spellByte(m.path[i]) + m.path[i+1:]
	}
	if g.chance(30) {
		m.tail = g.pick("/", "//", "/.", "/..", "/x/..", "/%2e", "/%2e/", "%2f", "%2F", ";", ";x=1", "%00", "%20", "%09", "%0a", "%0d%0a", ".", "?", "%3f", "#", "%23", "#/..", "?/..", "/x/../", ".html", "%", "%zz", "*", "&", "+",
			"\t", "\x00", "\x7f", "\xff", "%ff", "/..%2fshut", "/../", "%2f..", "/%2e%2e/", "%2e", "\\", "%5c", "/x/%2e%2e", "#x", "?#", ";/", "/;", "%3b", "%c0%80", "/..;/", "/~", "%7f", "%e2%80%8b")
	}
}

// spellByte writes one byte of a path in another way.
func (g gen) spellByte(c byte) string {
	if c == '/' {
		return g.pick("//", "/./", "/x/../", "%2f", "%2F", "/%2e/", "\\", "%5c", "/;/", "/;x/", "%252f", "/.;/", "/x/..;/", "/x/%2e%2e/", "///", "%2f%2f", "/%2f", "%2f/", "%c0%af", "%u002f", "%ef%bc%8f", "/%00/", "/x//../", "/x/y/../../", "/.%2f", "%2f.%2f", "%2f./", "/x%2f../", "/x/..%2f", "%2fx%2f..%2f", "/x%2f..%2f")
	}
	return g.pick(
		fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c),
		fmt.Sprintf("%%25%02x", c), strings.ToUpper(string(c)), fmt.Sprintf("%%c1%%%02x", c+0x40), fmt.Sprintf("%%u00%02x", c),
		string([]byte{0xef, 0xbc + c/0x60, 0x80 + (c-0x20)%0x40}), string(c)+"%00", string(c)+"\x00", string(c)+"\\", string(c)+";x", string(c)+"\t", "\\"+string(c), string(c)+"%0d", string(c)+"%c2%ad",
	)
}

// spoilForm writes a target in absolute form, or in a form of its own.
func (g gen) spoilForm(m *message) {
	m.prefix = g.pick(
		"http://www.example.com", "HTTP://www.example.com", "https://www.example.com", "http://other.example", "http://api.example.com", "http://a.internal.example", "http://eve.example", "http://www.example.com:80", "http://www.example.com:80:80",
		"http://user@www.example.com", "http://user:pass@api.example.com", "http://api.example.com@www.example.com", "http://", "http:", "http:/", "http:///", "//www.example.com", "//api.example.com", "ws://www.example.com", "foo:", "foo://", "http:\\\\www.example.com",
		"http://www.example.com/..", "http://[::1]", "http://[::1", "http://www.example.com.", "http://API.example.com.", "http://api%2eexample.com", "http://www.example.com\\@api.example.com", "http://www.example.com#@api.example.com", "http://www.example.com?", "file://", "www.example.com:80",
		"http://api.example.com:", "http://api.example.com:80:80", "http://api.example.com::",
	)
	if g.chance(10) {
		m.path, m.query = g.pick("", "*"), ""
	}
}

// spoilHost writes the host in another way.
func (g gen) spoilHost(m *message) {
	h := m.host
	spelled := func() string {
		return g.pick(
			h, strings.ToUpper(h), strings.ToUpper(h[:1])+h[1:], h+":80", h+":", h+".", h+".:80", h+"..", h+":80:80", h+"::", h+":80:", h+":x", h+":080", h+":99999", h+":-1", h+": 80", h+" :80",
			"x@"+h, h+"@x", "x:80@"+h, h+"/x", h+"#x", h+"?x", h+"\\x", h+",www.example.com", "www.example.com,"+h, h+", www.example.com", h+" ", "\t"+h, h+"\twww.example.com", h+" www.example.com", "["+h+"]", h+"%00", h+"\x00", h+"\x00.www.example.com",
			fmt.Sprintf("%%%02x%s", h[0], h[1:]), fmt.Sprintf("%s%%2e%s", h[:strings.IndexByte(h, '.')], h[strings.IndexByte(h, '.')+1:]), strings.Replace(h, ".", "\u3002", 1), strings.Replace(h, ".", "\uff0e", 1), h[:1]+"\u00ad"+h[1:],
			string(rune(h[0])+0xfee0)+h[1:], h+"\r\n ", h+"\r\n\t:80", "\""+h+"\"", "http://"+h, h+";x", h+"|", h+"_", "."+h, h+"%2e", h+":80#", h+":80/", h+":80?x", h+"%", "www.example.com", "www.example.com:80",
			h+strings.Repeat(".", 300), strings.Repeat("x.", 200)+h, h+":"+strings.Repeat("0", 300)+"80",
		)
	}
	name := func() string {
		return g.mostly("Host: ", "host: ", "HOST:", "Host:\t", "Host : ", "Host\t: ", " Host: ", "H\x6fst: ", "Host\x00: ", "Host.: ")
	}
	m.hosts = nil
	switch g.IntN(10) {
	case 0:
		m.prefix = "http://" + spelled()
		m.hosts = []string{"Host: " + g.pick(h, "www.example.com", spelled())}
	case 1:
		m.hosts = g.shuffle([]string{name() + h, name() + g.pick("www.example.com", "", spelled())})
	case 2:
		m.hosts = g.shuffle([]string{name() + "www.example.com", g.pick("X-Forwarded-Host: ", "X-Host: ", "X-Forwarded-Server: ", "X-HTTP-Host-Override: ", "X-Original-Host: ", "X_Forwarded_Host: ", "X_Host: ", "Forwarded: host=") + h})
	case 3:
		if g.chance(50) {
			m.version = "HTTP/1.0"
		}
		if g.chance(50) {
			m.hosts = []string{"Host:"}
		}
	default:
		m.hosts = []string{name() + spelled()}
	}
}
