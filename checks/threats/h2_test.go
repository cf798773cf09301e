package threats

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sluicehq/sluice/checks/process"
)

// Types and flags of frames of HTTP/2.
const (
	h2Data, h2Headers, h2Reset, h2Settings, h2GoAway = 0, 1, 3, 4, 7
	h2EndStream, h2EndHeaders                        = 1, 4
)

// exchangeH2 sends a request, written as for HTTP/1, over HTTP/2, as literally as that allows. It
// returns the frames that come back, in words.
func exchangeH2(addr string, request []byte) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	fields, body := h2Fields(string(request))
	block := h2Block(fields)
	if len(block) > 16000 || len(body) > 16000 {
		return "", nil // more than a frame
	}
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = h2Frame(out, h2Settings, 0, 0, "")
	flags := byte(h2EndHeaders)
	if body == "" {
		flags |= h2EndStream
	}
	out = h2Frame(out, h2Headers, flags, 1, block)
	if body != "" {
		out = h2Frame(out, h2Data, h2EndStream, 1, body)
	}
	_ = c.SetDeadline(time.Now().Add(process.Patience)) // a connection that is gone fails below
	if _, err := c.Write(out); err != nil {
		return "", nil // the other side may have closed the connection
	}
	return h2Answer(c), nil
}

// h2Answer reads frames until the stream or the connection ends, or nothing comes.
func h2Answer(c net.Conn) string {
	var words strings.Builder
	for words.Len() < 1<<16 {
		_ = c.SetReadDeadline(time.Now().Add(idle))
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			break
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			break
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		fmt.Fprintf(&words, "frame %d, flags %d, %.40q\n", kind, flags, payload)
		if kind == h2GoAway || kind == h2Reset || stream == 1 && flags&h2EndStream != 0 && kind <= h2Headers {
			break
		}
	}
	return words.String()
}

// h2Fields takes a request apart as it is: nothing is trimmed or lowered but what a name begins with.
func h2Fields(text string) (fields [][2]string, body string) {
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	request, rest, _ := strings.Cut(head, "\r\n")
	method, target, _ := strings.Cut(request, " ")
	if at := strings.LastIndexByte(target, ' '); at >= 0 {
		target = target[:at]
	}
	fields = [][2]string{{":method", method}, {":scheme", "https"}, {":path", target}}
	var others [][2]string
	authority := false
	for line := range strings.SplitSeq(rest, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		name = strings.ToLower(name)
		switch {
		case name == "host" && !authority:
			authority = true
			fields = append(fields, [2]string{":authority", value})
		case name != "":
			others = append(others, [2]string{name, value})
		}
	}
	return append(fields, others...), body
}

// h2Block writes fields as literals that no table holds.
func h2Block(fields [][2]string) string {
	var b []byte
	for _, f := range fields {
		b = append(b, 0)
		for _, text := range f {
			if n := len(text); n < 127 {
				b = append(b, byte(n))
			} else {
				b = append(b, 127)
				b = binary.AppendUvarint(b, uint64(n-127))
			}
			b = append(b, text...)
		}
	}
	return string(b)
}

// h2Frame appends a frame.
func h2Frame(out []byte, kind, flags byte, stream uint32, payload string) []byte {
	n := len(payload)
	out = append(out, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}
