package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice": func() { os.Exit(Main()) }})
}

// TestCommandsPrintWhatTheirScriptsSay runs the command lines in testdata/script. UPDATE=1 writes what they
// print into the scripts.
func TestCommandsPrintWhatTheirScriptsSay(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeport": freePort,
			"taken":    taken,
			"reach":    reach,
		},
	})
}

// freePort puts addresses on which nobody listens into variables.
func freePort(ts *testscript.TestScript, _ bool, names []string) {
	var held []net.Listener
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		held = append(held, l)
		ts.Setenv(name, l.Addr().String())
	}
	for _, l := range held {
		ts.Check(l.Close())
	}
}

// taken puts an address on which somebody listens into a variable.
func taken(ts *testscript.TestScript, _ bool, names []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(names[0], l.Addr().String())
}

// reach waits until a URL answers with a status.
func reach(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: reach STATUS URL")
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := "nothing"
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		res, err := client.Get(args[1])
		if err != nil {
			last = err.Error()
			if neg {
				return
			}
			continue
		}
		res.Body.Close()
		last = fmt.Sprint(res.StatusCode)
		if !neg && last == args[0] {
			return
		}
	}
	ts.Fatalf("%s answers %s", args[1], last)
}
