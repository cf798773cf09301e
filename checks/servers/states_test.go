package servers

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/memory"
)

// savedConfig returns a configuration whose states survive in a file of a folder. No limit gives
// anything back while a test runs.
func savedConfig(dir string) string {
	return fmt.Sprintf("store: {memory: {file: '%s', save_every: 20ms}}\n", filepath.Join(dir, "states")) + `
rules:
  - {name: window, match: {path: /window}, key: client_ip, limit: {algorithm: fixed_window, rate: 1000000/30d}}
  - {name: log, match: {path: /log}, key: client_ip, limit: {algorithm: sliding_log, rate: 60000/30d}}
  - {name: bucket, match: {path: /bucket}, key: client_ip, limit: {algorithm: token_bucket, rate: 2/30d, burst: 50000}}
  - {name: banned, match: {path: /banned}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/30d}, ban: {after: 2, for: 24h}}
`
}

// capacities are the limits of savedConfig, by path.
var capacities = map[string]int64{"/window": 1_000_000, "/log": 60_000, "/bucket": 50_000}

// account is what a client has got of one limit.
type account struct {
	path, client string

	mu    sync.Mutex
	known int64 // units that were used at the start of the server
	tried int64 // requests since then
	got   []time.Time
}

// take requests one unit, and notes when the answer came.
func (a *account) take(s *server) {
	a.mu.Lock()
	a.tried++
	a.mu.Unlock()
	if r, err := s.check(a.path, a.client); err == nil && r.Allowed {
		a.mu.Lock()
		a.got = append(a.got, time.Now())
		a.mu.Unlock()
	}
}

// audit compares the state after a start with what the client has got, of which everything before
// savedAt must be in it.
func (a *account) audit(t *testing.T, s *server, savedAt time.Time) {
	t.Helper()
	r := s.mustCheck(a.path, a.client)
	if r.Remaining == nil {
		t.Fatalf("%s for %s: no number remains: %+v", a.path, a.client, r)
	}
	used := capacities[a.path] - *r.Remaining - 1 // this request
	least := a.known
	for _, at := range a.got {
		if at.Before(savedAt) {
			least++
		}
	}
	if used < least || used > a.known+a.tried {
		t.Errorf("%s for %s: %d units are used after the restart; %d were before the last save, and %d were requested", a.path, a.client, used, least, a.known+a.tried)
	}
	a.known, a.tried, a.got = used, 1, []time.Time{time.Now()}
}

// savedAt returns when the last complete save in the file of a killed server began, and whether it was
// killed in the middle of a save.
func savedAt(t *testing.T, dir string) (at time.Time, cut bool) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "states"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	store, report, err := memory.Load(file, memory.Options{})
	if err != nil {
		t.Fatalf("the file of a killed server: %v", err)
	}
	_ = store.Close() // it never fails
	return report.SavedAt, report.Incomplete
}

// TestStatesSurviveKills kills a server that saves its states, at random moments under load, and also
// while it starts. After each start, everything that was granted before the last save is used, and no
// unit is used that nobody has requested. Bans are still in force. At the end, a server that was drained
// has lost nothing.
func TestStatesSurviveKills(t *testing.T) {
	t.Parallel()
	const clients, callers, clockTolerance = 8, 4, 5 * time.Millisecond
	dir := t.TempDir()
	var accounts []*account
	for path := range capacities {
		for c := range clients {
			accounts = append(accounts, &account{path: path, client: fmt.Sprint("192.0.2.", c)})
		}
	}
	banned := map[string]time.Time{} // by client, when the answer came
	var mu sync.Mutex
	var ages []time.Duration
	cut := 0
	s := serveIn(t, dir, savedConfig(dir))
	rounds := redistest.Times(t, 4) // hundreds with `make soak`
	for round := range rounds {
		stop := make(chan struct{})
		var calling sync.WaitGroup
		for g := range callers {
			calling.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(g)))
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					accounts[r.IntN(len(accounts))].take(s)
					if n%16 != 0 {
						continue
					}
					client := fmt.Sprintf("198.51.%d.%d", round%250, r.IntN(250))
					for range 4 {
						if a, err := s.check("/banned", client); err == nil && a.Reason == "banned" {
							mu.Lock()
							banned[client] = time.Now()
							mu.Unlock()
						}
					}
				}
			})
		}
		calling.Go(func() { crowdIn(s, stop) })
		<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
		killed := time.Now()
		s.Kill()
		close(stop)
		calling.Wait()
		savedAt, inSave := savedAt(t, dir)
		if inSave {
			cut++
		}
		for range rand.IntN(3) {
			killStarting(t, dir)
		}

		s = serveIn(t, dir, savedConfig(dir))
		if strings.Contains(s.Log(), "refused") {
			t.Fatalf("round %d: %s", round, s.Log())
		}
		ages = append(ages, killed.Sub(savedAt))
		for _, a := range accounts {
			a.audit(t, s, savedAt.Add(-clockTolerance))
		}
		for client, at := range banned {
			switch a := s.mustCheck("/banned", client); {
			case a.Reason == "banned":
				banned[client] = time.Time{} // from now on it is known
			case at.Before(savedAt.Add(-clockTolerance)):
				t.Errorf("round %d: %s was banned before the last save, and now gets %+v", round, client, a)
			default:
				delete(banned, client)
			}
			if len(banned) > 300 {
				delete(banned, client)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if status := s.drain(); status != 0 {
		t.Errorf("the drained server ends with %d", status)
	}
	s = serveIn(t, dir, savedConfig(dir))
	for _, a := range accounts {
		a.known += int64(len(a.got))
		a.tried, a.got = 0, nil
		a.audit(t, s, time.Now())
	}
	slices.Sort(ages)
	t.Logf("killed %d times, %d times within a save; the last save began %v before that in the middle, and %v at most; save_every is 20ms", rounds, cut, ages[len(ages)/2], ages[len(ages)-1])
}

// crowdIn charges many other keys, so that saves have much to write.
func crowdIn(s *server, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		var batch []string
		for range 500 {
			batch = append(batch, fmt.Sprintf(`{"method": "GET", "path": "/window", "client_ip": "10.%d.%d.%d"}`, rand.IntN(2), rand.IntN(40), rand.IntN(250)))
		}
		_, _, _ = s.try("api", http.MethodPost, "/v1/check", `{"requests": [`+strings.Join(batch, ",")+`]}`) // it may be killed meanwhile
	}
}

// killStarting starts the server, and kills it before it listens or soon after that.
func killStarting(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(process.Program(), "serve", filepath.Join(dir, "sluice.yaml"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Duration(rand.IntN(60_000)) * time.Microsecond)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// TestRefusedStates: a file that cannot be understood is kept under another name, and the server starts
// with full budgets, and says so.
func TestRefusedStates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "states")
	s := serveIn(t, dir, savedConfig(dir))
	s.mustCheck("/window", "192.0.2.1")
	if status := s.drain(); status != 0 {
		t.Errorf("the server ends with %d", status)
	}
	if text, err := validate(t, savedConfig(dir)); err != nil || !strings.Contains(text, "the file of states can be written, and has 1 states, saved at 20") {
		t.Errorf("validate answers %q, %v", text, err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{
		"damaged":         good[:len(good)/3],
		"something else":  []byte("version: 1\nrules: []\n# some other file that somebody has put here\n"),
		"another version": otherStates(good),
	} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := validate(t, savedConfig(dir)); err == nil || !strings.Contains(text, "the server would not load these states") || !strings.Contains(text, what) {
			t.Errorf("%s: validate answers %q, %v", what, text, err)
		}
		s := serveIn(t, dir, savedConfig(dir))
		if a := s.mustCheck("/window", "192.0.2.1"); *a.Remaining != 999_999 {
			t.Errorf("%s: %d units remain", what, *a.Remaining)
		}
		kept, err := filepath.Glob(file + ".refused-*")
		if err != nil || len(kept) != 1 {
			t.Fatalf("%s: kept as %v, %v", what, kept, err)
		}
		if text, err := os.ReadFile(kept[0]); err != nil || string(text) != string(bad) {
			t.Errorf("%s: the kept file is another one, %v", what, err)
		}
		if log := s.Log(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "the saved states are refused") || !strings.Contains(log, what) || !strings.Contains(log, kept[0]) {
			t.Errorf("%s: the log is %s", what, log)
		}
		if s.figure("sluice_state_refused") != "1" {
			t.Errorf("%s: the metrics do not show it", what)
		}
		s.Kill()
		if err := os.Remove(kept[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// otherStates returns a file of another version of the format.
func otherStates(file []byte) []byte {
	other := slices.Clone(file)
	other[8]++ // after the magic text
	binary.LittleEndian.PutUint32(other[12:], crc32.Checksum(other[:12], crc32.MakeTable(crc32.Castagnoli)))
	return other
}

// TestStatesNeedTheirFile: a server whose file it cannot have does not start, and names the problem.
func TestStatesNeedTheirFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serveIn(t, dir, savedConfig(dir))
	for config, want := range map[string]string{
		savedConfig(dir):                         "another server has it; give each server a file of its own",
		savedConfig(filepath.Join(dir, "no-go")): "no such file or directory; make the folder first",
		strings.ReplaceAll(savedConfig(dir), filepath.Join(dir, "states"), dir):               "is not a regular file",
		strings.ReplaceAll(savedConfig(dir), filepath.Join(dir, "states"), "/proc/self/stat"): "the server must be able to write in the folder",
	} {
		if log := refused(t, config); !strings.Contains(log, "store.memory.file: ") || !strings.Contains(log, want) {
			t.Errorf("%s\nthe error is %s, want %q", config, log, want)
		}
	}
}

// TestStatesNeedSpace: while a file cannot be written, the server decides, and reports that states are
// not saved. When it can be written again, nothing is lost.
func TestStatesNeedSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serveIn(t, dir, savedConfig(dir))
	// The file is gone, and a folder has its name: neither appending nor replacing works.
	file := filepath.Join(dir, "states")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "a failed save", func() bool {
		s.mustCheck("/window", "192.0.2.1")
		_, text := s.ready()
		failed, _ := strconv.Atoi(s.figure(`sluice_state_saves_total{outcome="failed"}`))
		return failed > 0 && strings.Contains(text, "states: not saved since ")
	})
	if status, _ := s.ready(); status != http.StatusOK {
		t.Errorf("the server is not ready: %d", status)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "a save", func() bool {
		_, text := s.ready()
		return !strings.Contains(text, "states: not saved")
	})
	left := *s.mustCheck("/window", "192.0.2.1").Remaining
	if status := s.drain(); status != 0 {
		t.Errorf("the server ends with %d", status)
	}
	s = serveIn(t, dir, savedConfig(dir))
	if a := s.mustCheck("/window", "192.0.2.1"); *a.Remaining != left-1 {
		t.Errorf("%d units remain, want %d", *a.Remaining, left-1)
	}
}
