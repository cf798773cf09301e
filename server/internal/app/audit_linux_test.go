package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipeThatNobodyReads: calls fail within their bound while the reader of the audit log has stopped, and decisions go on. When it
// reads again, it gets the records of all calls.
func TestPipeThatNobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file := parse(t, free+"audit: {file: "+path+"}\n"+bannable)
	if a, err := New(Options{File: file}); err == nil || !strings.Contains(err.Error(), "audit.file") || !strings.Contains(err.Error(), "start its reader first") {
		if err == nil {
			a.Close()
		}
		t.Fatalf("without a reader, the error is %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	const room = 4096 // the least of a pipe
	raw, err := reader.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, room) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, file, nil)
	lines := 1 // the start
	for {      // fill the pipe
		res, text := r.send(Admin, "POST", "/v1/bans", keyOfLogin+`, "for_ms": 60000}`)
		lines += 2
		if res.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if res.StatusCode != http.StatusOK || lines > room {
			t.Fatalf("a ban is answered %d %s", res.StatusCode, text)
		}
	}
	before := r.unitsOfLogin()
	if before != -1 {
		t.Fatalf("%d units are left of a banned key", before)
	}
	res, text := r.send(Admin, "DELETE", "/v1/bans", keyOfLogin+"}")
	lines += 2
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "it took nothing within the time") || !strings.Contains(text, "start the reader of its pipe") {
		t.Errorf("a call is answered %d %s", res.StatusCode, text)
	}
	if after := r.unitsOfLogin(); after != before {
		t.Errorf("the call has changed something: %d units are left", after)
	}
	if res, text := r.send(API, "POST", "/v1/check", `{"rule": "login", "key": ["192.0.2.7"]}`); res.StatusCode != http.StatusOK {
		t.Errorf("a decision is answered %d %s", res.StatusCode, text)
	}
	if got := r.figure("sluice_audit_refused_calls_total"); got != "2" {
		t.Errorf("%s calls are counted, want 2", got)
	}

	scanned := make(chan string)
	go func() {
		defer close(scanned)
		for s := bufio.NewScanner(reader); s.Scan(); {
			scanned <- s.Text()
		}
	}()
	next := func() (x struct{ Action, Result, Why string }) {
		t.Helper()
		if err := json.Unmarshal([]byte(<-scanned), &x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	var last []string
	for range lines {
		x := next()
		last = append(last, fmt.Sprint(x.Action, " ", x.Result, " ", x.Why))
	}
	want := "ban begun , ban refused 503 Not recorded, unban begun , unban refused 503 Not recorded"
	if got := strings.Join(last[max(0, len(last)-4):], ", "); got != want {
		t.Errorf("the last records are %s, want %s", got, want)
	}
	go func() { // the records of the next call and of the end
		for range scanned {
		}
	}()
	if res, text := r.send(Admin, "DELETE", "/v1/bans", keyOfLogin+"}"); res.StatusCode != http.StatusOK || r.unitsOfLogin() != 5 {
		t.Errorf("with a reader, a call is answered %d %s", res.StatusCode, text)
	}
	eventually(t, "the last record", func() bool { return r.figure("sluice_audit_waiting_records") == "0" })
	r.end() // the reader gets the end of the pipe
}
