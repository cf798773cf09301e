package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// isService is the variable that makes this program a service behind the proxy, in a process of its own. As many
// services do, it works on when its client has left.
const isService = "SLUICE_TEST_SERVICE"

// work is what the service has done.
type work struct {
	mu sync.Mutex
	// Arrived counts all requests, Working the requests under way, and Most the highest number of them at once.
	Arrived, Working, Most int
	// ByName are the requests with a name.
	ByName map[string]int
}

func (w *work) begin(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Arrived++
	w.ByName[name]++
	w.Working++
	w.Most = max(w.Most, w.Working)
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Working--
}

// serveTests serves until the standard input ends. A request has what it does in its query.
func serveTests() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	done := work{ByName: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/figures", func(w http.ResponseWriter, _ *http.Request) {
		done.mu.Lock()
		defer done.mu.Unlock()
		_ = json.NewEncoder(w).Encode(&done)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		done.begin(q.Get("name"))
		defer done.end()
		number := func(name string) int { n, _ := strconv.Atoi(q.Get(name)); return n }
		if kind := q.Get("type"); kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		for range number("first") {
			fmt.Fprint(w, ".")
			_ = http.NewResponseController(w).Flush()
		}
		<-time.After(time.Duration(number("work")) * time.Millisecond) // whether the client has left or not
		if status := number("status"); status != 0 {
			w.WriteHeader(status)
		}
		fmt.Fprint(w, strings.Repeat(".", number("bytes")))
	})
	fmt.Println(ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println((&http.Server{Handler: mux, ReadHeaderTimeout: patience}).Serve(ln))
}

// external is the service in a process of its own.
type external struct {
	t   *testing.T
	url string
}

// startService starts the service. It ends with the test.
func startService(t *testing.T) *external {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program)
	c.Env = append(os.Environ(), isService+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = c.Wait() // its context may have ended before
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &external{t, "http://" + strings.TrimSpace(line)}
}

// figures returns what the service has done.
func (e *external) figures() *work {
	e.t.Helper()
	q, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.url+"/figures", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	q.Close = true
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	var w work
	if err := json.NewDecoder(res.Body).Decode(&w); err != nil {
		e.t.Fatal(err)
	}
	return &w
}
