package bandwidth_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/memory"
)

func ExampleNewWriter() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	// Each user downloads at 1 MB/s, over however many connections.
	limiter, err := bandwidth.NewLimiter(bandwidth.Options{
		Store: store, Name: "downloads", Rate: sluice.PerSecond(1_000_000),
	})
	if err != nil {
		panic(err)
	}

	var conn bytes.Buffer
	w := bandwidth.NewWriter(context.Background(), &conn, limiter.Flow(sluice.StringKey("alice")))
	defer w.Close()

	began := time.Now()
	n, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 130_000)))
	fmt.Println(n, err)
	// The first 30 ms of the rate are the burst, and the rest comes in 100 ms.
	fmt.Println(time.Since(began) >= 95*time.Millisecond)
	// Output:
	// 130000 <nil>
	// true
}

func ExampleNewReader() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	perUser, err := bandwidth.NewLimiter(bandwidth.Options{Store: store, Name: "user", Rate: sluice.PerSecond(10_000_000)})
	if err != nil {
		panic(err)
	}
	everybody, err := bandwidth.NewLimiter(bandwidth.Options{Store: store, Name: "all", Rate: sluice.PerSecond(100_000_000)})
	if err != nil {
		panic(err)
	}

	// The upload is held to both.
	upload := strings.NewReader("what a user sends")
	r := bandwidth.NewReader(context.Background(), upload,
		perUser.Flow(sluice.StringKey("alice")), everybody.Flow(sluice.Key{}))
	defer r.Close()

	text, err := io.ReadAll(r)
	fmt.Printf("%s %v\n", text, err)
	// Output:
	// what a user sends <nil>
}

func ExampleNewConn() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	limiter, err := bandwidth.NewLimiter(bandwidth.Options{Store: store, Name: "tunnel", Rate: sluice.PerSecond(5_000_000)})
	if err != nil {
		panic(err)
	}
	near, far := net.Pipe()
	defer far.Close()

	// Both directions share one flow.
	flow := []bandwidth.Flow{limiter.Flow(sluice.StringKey("alice"))}
	conn := bandwidth.NewConn(context.Background(), near, bandwidth.ConnOptions{Read: flow, Write: flow})
	defer conn.Close()

	go func() { _, _ = io.WriteString(far, "hello") }()
	p := make([]byte, 5)
	n, err := io.ReadFull(conn, p)
	fmt.Printf("%s %d %v\n", p, n, err)
	// Output:
	// hello 5 <nil>
}
