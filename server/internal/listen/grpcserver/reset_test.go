package grpcserver

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// TestRapidResetOfCalls opens streams and resets them at once, much faster than calls end. The server holds no more calls than a
// connection may have, and answers others meanwhile.
func TestRapidResetOfCalls(t *testing.T) {
	const streams, most = 20_000, 10
	w := start(t, Options{MaxStreams: most})
	before := runtime.NumGoroutine()
	c, err := net.Dial("tcp", w.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, c) }) // until the server or the test closes
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(c, c)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", sayMethod}, {":authority", "a"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}); err != nil { // never indexed: each block is the same
			t.Fatal(err)
		}
	}
	message := []byte{0, 0, 0, 0, 6, 10, 4, 'w', 'a', 'i', 't'}
	most0, other := 0, 0
	for i := range streams {
		id := uint32(2*i + 1)
		err := frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		if err == nil {
			err = frames.WriteData(id, true, message)
		}
		if err == nil {
			err = frames.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			t.Logf("the server ended the connection after %d streams: %v", i, err)
			break
		}
		if i%1000 == 999 {
			most0 = max(most0, runtime.NumGoroutine())
			if w.say("a") == nil {
				other++
			}
		}
	}
	if most0 > before+4*most+50 {
		t.Errorf("%d goroutines; %d before", most0, before)
	}
	if other == 0 {
		t.Error("no other call was answered")
	}
	w.wants(w.say("a"), codes.OK, "a call afterwards")
	_ = c.Close()
	reading.Wait()
}

// TestTooManyPingsEndTheConnection sends pings much faster than gateways do. The server ends the connection.
func TestTooManyPingsEndTheConnection(t *testing.T) {
	w := start(t, Options{})
	c, err := net.Dial("tcp", w.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(c, c)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for i := range byte(8) {
		if frames.WritePing(false, [8]byte{i}) != nil {
			break // the server has ended the connection
		}
	}
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			t.Fatalf("the connection ended without a reason: %v", err)
		}
		if away, ok := f.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("want the reason ENHANCE_YOUR_CALM, got %v", away)
			}
			return
		}
	}
}
