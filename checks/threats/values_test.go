package threats

import (
	"fmt"
	"strings"
)

// spoilHeader writes a header with one of two values in another way, often with both values.
func (g gen) spoilHeader(m *message, name, value, other string) {
	names := func() string {
		under, dotted := strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", ".")
		return g.mostly(
			name, strings.ToLower(name), strings.ToUpper(name), under, under, strings.ToLower(under), dotted, strings.Replace(name, "-", "_", 1), strings.ReplaceAll(name, "-", ""), strings.ReplaceAll(name, "-", "--"),
			name+" ", name+"\t", " "+name, name+"\x00", name+"_", name+"-", "HTTP_"+under, strings.ReplaceAll(name, "-", " "), strings.ReplaceAll(name, "-", "\u2010"), "\x00"+name, strings.ReplaceAll(name, "-", "%2d"),
		)
	}
	line := func(v string) string {
		return names() + g.mostly(": ", ":", ":\t", ":  ", " : ", ": \r\n ") + g.spellValue(v)
	}
	var lines []string
	for range g.some(3) {
		lines = append(lines, line(g.pick(value, value, other, "")))
	}
	if g.chance(50) {
		lines = append(lines, line(other))
	}
	if g.chance(25) {
		lines = append(lines, "Connection: "+g.pick(name, "close, "+name, strings.ToLower(name)+", keep-alive", "\""+name+"\"", strings.ReplaceAll(name, "-", "_"), name+";x", ","+name, name+"\r\n ,x"))
	}
	m.lines = g.shuffle(lines)
	if g.chance(10) {
		m.framing = []string{"Transfer-Encoding: chunked", "Trailer: " + name}
		m.body = "1\r\nx\r\n0\r\n" + names() + ": " + g.pick(value, other) + "\r\n\r\n"
	}
}

// spellValue writes the value of a header in another way.
func (g gen) spellValue(v string) string {
	return g.mostly(
		v, v, v, v+" ", v+"\t", " "+v, "\""+v+"\"", v+",", ","+v, v+"\r\n ", "\r\n "+v, v+"\x00", "\x00"+v, v+"\x0b", "\x0c"+v, "\xa0"+v, v+"\xa0", v+"\xc2\xa0", v+";q=1", v+"\r", "\r"+v, v+"\n x", "%"+fmt.Sprintf("%02x", v[:min(1, len(v))])+v[min(1, len(v)):], v+"\x7f", "=?utf-8?q?"+v+"?=",
	)
}

// spoilQuery writes a parameter with one of two values in another way, often with both values.
func (g gen) spoilQuery(m *message, name, value, other string) {
	escape := func(s string) string {
		if s == "" {
			return s
		}
		i := g.IntN(len(s))
		if s == freshWord {
			return s
		}
		return s[:i] + g.pick(fmt.Sprintf("%%%02x", s[i]), fmt.Sprintf("%%%02X", s[i]), fmt.Sprintf("%%25%02x", s[i]), strings.ToUpper(s[i:i+1]), s[i:i+1]+"%00", "+"+s[i:i+1], fmt.Sprintf("%%u00%02x", s[i]), s[i:i+1]+"%", s[i:i+1]+"%zz", s[i:i+1]+"%2", s[i:i+1]+"\xc3\x28", s[i:i+1]+"\x7f") + s[i+1:]
	}
	names := func() string {
		return g.mostly(name, escape(name), name+"[]", name+"[0]", name+".", "."+name, " "+name, "+"+name, name+"+", "%20"+name, name+"%00", strings.ToUpper(name), "amp;"+name, "?"+name, "#"+name, "["+name, name+"%5b%5d", name+"%zz", name+"%")
	}
	pair := func(v string) string {
		return names() + g.mostly("=", "==", "%3d", "=+", "=%20", "= ", "") + g.mostly(v, escape(v))
	}
	pairs := []string{pair(g.pick(value, value, other, ""))}
	for g.chance(60) {
		pairs = append(pairs, pair(g.pick(value, other, other, "")))
	}
	if g.chance(40) {
		pairs = append(pairs, pair(other))
	}
	if g.chance(20) {
		pairs = append(pairs, g.pick("", "x=1", "%zz=1", "%", "=", "x", "a=%", "a=b;c=d", ";", "&", "x=1;"+name+"="+value, "x="+name+"="+value, "\xff=1"))
	}
	g.shuffle(pairs)
	m.query = g.mostly("?", "??", "?&", "?;", "%3f", "?#", ";?", "#?")
	for i, p := range pairs {
		if i > 0 {
			m.query += g.mostly("&", "&&", ";", "&amp;", "%26", "?", "#", ",", " &", "&\t", "\x00&", "|")
		}
		m.query += p
	}
	if g.chance(10) { // the same parameter in a form
		m.method = "POST"
		m.body = names() + "=" + g.pick(value, other, freshWord)
		m.framing = []string{"Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(m.body))}
	}
	if g.chance(15) {
		m.query += g.pick("#", "#x", "%23", "#&", " ", "\t", ";", "&", "%00", "#?"+name+"="+value, "#&"+name+"="+value)
	}
}

// spoilCookie writes a cookie with one of two values in another way, often with both values.
func (g gen) spoilCookie(m *message, name, value, other string) {
	spelled := func(v string) string {
		hex, octal := "", ""
		if v != freshWord && v != "" {
			hex, octal = fmt.Sprintf("%%%02x%s", v[0], v[1:]), fmt.Sprintf("\"\\%03o%s\"", v[0], v[1:])
		}
		return g.mostly(v, "\""+v+"\"", "\""+v, v+"\"", " "+v, v+" ", v+"\t", hex, octal, "\"\\"+v+"\"", v+"\x00", v+"\xff", v+"\x7f", v+"\\", "\" "+v+"\"", "\""+v+";\"", "\""+v+",\"", "'"+v+"'")
	}
	names := func() string {
		return g.mostly(name, strings.ToUpper(name), " "+name, name+" ", "\t"+name, name+"\t", "$"+name, name+"[]", "\""+name+"\"", fmt.Sprintf("%%%02x%s", name[0], name[1:]), "x "+name, "x,"+name, name+"\x00", "="+name, name+"\xa0", "Path="+name)
	}
	pair := func(v string) string {
		return names() + g.mostly("=", " = ", "==", "", "%3d", "=\t") + spelled(v)
	}
	var lines []string
	for range g.some(2) {
		pairs := []string{pair(g.pick(value, value, other, ""))}
		for g.chance(50) {
			pairs = append(pairs, pair(g.pick(value, other, other, "")))
		}
		if g.chance(20) {
			pairs = append(pairs, g.pick("", "x=1", "x", "=", "$Version=1", "a[b=1", "x=\"", "x=\"a", "\xff=1", "x=1,"+name+"="+value, "x=\"; "+name+"="+value, "Path=/", "HttpOnly", "a b=1", "x=\x7f"))
		}
		g.shuffle(pairs)
		text := g.mostly("Cookie: ", "cookie:", "COOKIE: ", "Cookie:\t", "Cookie2: ", "Cookie : ", "Coo_kie: ", "Cookie: ;", "Set-Cookie: ")
		for i, p := range pairs {
			if i > 0 {
				text += g.mostly("; ", ";", ",", ", ", " ", "&", ";;", "\t;", " ; ", "\r\n ", ";\r\n ", "\x00;")
			}
			text += p
		}
		lines = append(lines, text)
	}
	if g.chance(10) {
		lines = append(lines, "Connection: "+g.pick("Cookie", "close, cookie"))
	}
	m.lines = g.shuffle(lines)
}

// spoilToken writes a bearer token in another way, often with another one.
func (g gen) spoilToken(m *message, value, other string) {
	credential := func(token string) string {
		if head, rest, ok := strings.Cut(token, "."); ok && g.chance(30) {
			payload, signature, _ := strings.Cut(rest, ".")
			token = g.pick(head+"="+"."+rest, head+"."+payload+"=."+signature, head+"."+payload+"==."+signature, head+"."+payload+".", token+"x", token+".", token+"=", head+"."+payload[:len(payload)-1]+"_."+signature)
		}
		return g.mostly("Bearer", "bearer", "BEARER", "BeArEr", "Token", "JWT", "DPoP", "Basic", "", "Bearer Bearer", "\"Bearer\"", "Bearer\x00", "Bearer,", "Bearer=") + g.mostly(" ", "  ", "\t", " \t ", "\x0b", "\x0c", "\xa0", "", "=", ": ", "\r\n ", "\r\n\t", "\xc2\xa0", "\x1f", "\x85") + g.spellValue(token)
	}
	var lines []string
	for range g.some(2) {
		lines = append(lines, g.mostly("Authorization: ", "authorization:", "AUTHORIZATION:\t", "Authorization : ", "Proxy-Authorization: ", "X-Authorization: ", "Authorization_: ")+credential(g.pick(value, value, value, other, "")))
	}
	if g.chance(20) {
		lines[0] += g.pick(", ", ",", " ", "; ") + credential(g.pick(value, other))
	}
	if g.chance(15) {
		lines = append(lines, "Connection: "+g.pick("Authorization", "close, authorization"))
	}
	m.lines = g.shuffle(lines)
}
