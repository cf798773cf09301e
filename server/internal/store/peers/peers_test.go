package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/redisstore"
)

// space is a space of records in this process.
type space struct {
	mu      sync.Mutex
	records map[string]redisstore.Record
	at      map[string]time.Time
	order   []string
	calls   int
	err     error
}

func newSpace() *space {
	return &space{records: map[string]redisstore.Record{}, at: map[string]time.Time{}}
}

func (s *space) PutRecords(_ context.Context, records []redisstore.Record) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, r := range records {
		if _, known := s.at[r.Name]; !known {
			s.order = append(s.order, r.Name)
		}
		s.records[r.Name], s.at[r.Name] = r, time.Now()
	}
	return make([]bool, len(records)), s.err
}

func (s *space) RecordsSince(_ context.Context, _ redisstore.RecordMark, most int) (page redisstore.RecordPage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, name := range s.order {
		if r := s.records[name]; !r.Removed && time.Since(s.at[name]) < r.For {
			r.Age = time.Since(s.at[name])
			page.Records = append(page.Records, r)
		}
	}
	if page.More = len(page.Records) > most; page.More {
		page.Records = page.Records[:most]
	}
	return page, s.err
}

func (s *space) RecordsOf(_ context.Context, names []string) (all []redisstore.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, name := range names {
		r, known := s.records[name]
		r.Name, r.Removed = name, !known || time.Since(s.at[name]) >= r.For
		all = append(all, r)
	}
	return all, s.err
}

// world has servers of one Redis.
type world struct {
	servers, questions, answers *space
	log                         bytes.Buffer
	answered                    atomic.Int64
}

func newWorld() *world {
	return &world{servers: newSpace(), questions: newSpace(), answers: newSpace()}
}

func (w *world) server(name string) *Peers {
	return New(Options{
		Servers: w.servers, Questions: w.questions, Answers: w.answers, Self: Server{Name: name},
		Answer: func(_ context.Context, question string) []byte {
			w.answered.Add(1)
			return []byte(name + " answers " + question)
		},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
}

// answers returns the answers to a question in a line.
func answers(t *testing.T, p *Peers, question string) string {
	t.Helper()
	all, more, err := p.Query(t.Context(), question)
	if err != nil || more {
		t.Errorf("question %q: more servers %t, %v", question, more, err)
	}
	var words []string
	for _, a := range all {
		words = append(words, fmt.Sprintf("%s silent=%t %q", a.Name, a.Silent(), a.Text))
	}
	return strings.Join(words, ", ")
}

// Servers answer while a question is open, and do no work otherwise. A stopped one is silent within two seconds of its last beat, and keeps
// its answer.
func TestPeersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b, c := w.server("a"), w.server("b"), w.server("c")
		run := func(p *Peers) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			go p.Run(ctx)
			synctest.Wait()
			return cancel
		}
		stopA := run(a)
		if got := answers(t, a, "q"); got != "" || w.questions.calls > 1 {
			t.Errorf("without other servers, there are peers %s, with %d calls about questions", got, w.questions.calls)
		}
		stopB, stopC := run(b), run(c)
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		pass(10 * time.Second)
		if before := w.servers.calls; w.answered.Load() > 0 || w.answers.calls > 1 || before > 35 {
			t.Errorf("without a question, %d answers were made, with %d calls of Redis", w.answered.Load(), before)
		}
		if got := answers(t, a, "q"); got != `b silent=false "", c silent=false ""` {
			t.Errorf("at the first question, the peers are %s", got)
		}
		pass(every)
		want := `b silent=false "b answers q", c silent=false "c answers q"`
		if got := answers(t, a, "q"); got != want {
			t.Errorf("after a second, the peers are %s, want %s", got, want)
		}
		if got := answers(t, b, "q"); !strings.Contains(got, "a silent=false") || strings.Contains(got, "b silent") {
			t.Errorf("the peers of another server are %s", got)
		}
		// A server that is killed says nothing. Its record stays.
		killed := w.server("d")
		killed.beat(t.Context(), redisstore.Record{Name: killed.o.Self.ID, Text: fmt.Sprintf(`{"id":%q,"name":"d"}`, killed.o.Self.ID), For: listed})
		pass(500 * time.Millisecond)
		killed.beat(t.Context(), redisstore.Record{Name: killed.o.Self.ID, Text: fmt.Sprintf(`{"id":%q,"name":"d"}`, killed.o.Self.ID), For: listed})
		if got := answers(t, a, "q"); got != want+`, d silent=false "d answers q"` {
			t.Errorf("with a new server, the peers are %s", got)
		}
		pass(2 * time.Second)
		for range 20 {
			if got := answers(t, a, "q"); got != want+`, d silent=true "d answers q"` {
				t.Errorf("after a server was killed, the peers are %s", got)
			}
			pass(time.Second)
		}
		// A server that stops is gone.
		stopC()
		synctest.Wait()
		if got := answers(t, a, "q"); got != `b silent=false "b answers q", d silent=true "d answers q"` {
			t.Errorf("after a server stopped, the peers are %s", got)
		}
		pass(listed)
		if got := answers(t, a, "q"); got != `b silent=false ""` {
			t.Errorf("later, the peers are %s", got)
		}
		w.answered.Store(0)
		pass(time.Minute)
		if w.answered.Load() > 4 {
			t.Errorf("when no question was open any more, %d answers were made", w.answered.Load())
		}
		stopA()
		stopB()
		synctest.Wait()
	})
}

// A caller that comes rarely gets new answers, and waits for them about a second. It does not wait for a server that hangs.
func TestWaitForPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.server("a"), w.server("b")
		ctx, stop := context.WithCancel(t.Context())
		go b.Run(ctx)
		synctest.Wait()
		for i := range 3 {
			before, began := w.answered.Load(), time.Now()
			all, err := a.Wait(t.Context(), "q")
			if took := time.Since(began); err != nil || len(all) != 1 || string(all[0].Text) != "b answers q" || w.answered.Load() == before || took > every+looks {
				t.Errorf("call %d: after %v, the answers are %+v, %v", i, took, all, err)
			}
			<-time.After(30 * time.Second)
		}
		stop()
		synctest.Wait()
		hung := w.server("c")
		hung.beat(t.Context(), redisstore.Record{Name: hung.o.Self.ID, Text: fmt.Sprintf(`{"id":%q}`, hung.o.Self.ID), For: listed})
		began := time.Now()
		all, err := a.Wait(t.Context(), "q")
		if took := time.Since(began); err != nil || len(all) != 1 || !all[0].Silent() || took > waits {
			t.Errorf("of a server that hangs, after %v the answers are %+v, %v", took, all, err)
		}
	})
}

// While Redis fails, the servers and their answers are as before.
func TestPeersWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := w.server("a"), w.server("b")
		ctx, stop := context.WithCancel(t.Context())
		go b.Run(ctx)
		synctest.Wait()
		answers(t, a, "q")
		<-time.After(every)
		synctest.Wait()
		want := answers(t, a, "q")
		w.servers.err = errors.New("it is gone")
		all, _, err := a.Query(t.Context(), "q")
		if err == nil || len(all) != 1 || string(all[0].Text) != "b answers q" {
			t.Errorf("without Redis, the answers are %+v, %v; want %s", all, err, want)
		}
		stop()
		synctest.Wait()
	})
}

// What others write to Redis costs a bounded amount, and is not believed blindly.
func TestHostilePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.server("a")
		self := redisstore.Record{Name: a.o.Self.ID, Text: "{}", For: listed}
		put := func(s *space, name, text string) {
			_, _ = s.PutRecords(t.Context(), []redisstore.Record{{Name: name, Text: text, For: time.Hour}})
		}
		for i := range 50 {
			put(w.questions, fmt.Sprint(i), fmt.Sprintf("x question %d", i))
		}
		put(w.questions, "long", "x "+strings.Repeat("x", mostText+1))
		put(w.questions, "no question", "x")
		a.beat(t.Context(), self)
		if w.answered.Load() != mostQuestions {
			t.Errorf("%d questions at once are answered, want %d", w.answered.Load(), mostQuestions)
		}
		put(w.servers, "x", `{"id":"x","name":"x"}`)
		put(w.servers, "y", `{"id":"another"}`)
		put(w.servers, "z", strings.Repeat(" ", mostText)+`{"id":"z"}`)
		put(w.answers, answerName("x", "bomb"), pack(bytes.Repeat([]byte("x"), mostUnpacked+1)))
		put(w.answers, answerName("x", "noise"), "\x1f\x8b no answer")
		for _, question := range []string{"bomb", "noise"} {
			if got := answers(t, a, question); got != `x silent=false ""` {
				t.Errorf("to question %s, the servers answer %s", question, got)
			}
		}
		if n := strings.Count(w.log.String(), "\n"); n != 1 {
			t.Errorf("the log has %d lines, want 1: %s", n, &w.log)
		}
		for i := range 2 * mostServers {
			put(w.servers, fmt.Sprint(i), fmt.Sprintf(`{"id":"%d"}`, i))
		}
		if servers, more, err := a.Query(t.Context(), "noise"); len(servers) > mostServers+1 || !more || err != nil {
			t.Errorf("of very many servers, %d are listed, with more: %t, %v", len(servers), more, err)
		}
		for i := range mostQuestions - 2 {
			servers, _, err := a.Query(t.Context(), fmt.Sprint("question ", i))
			if err != nil || len(servers) == 0 {
				t.Errorf("question %d has %d servers, %v", i, len(servers), err)
			}
		}
		if _, _, err := a.Query(t.Context(), "one too many"); !errors.Is(err, ErrBusy) {
			t.Errorf("one question too many: %v, want ErrBusy", err)
		}
		<-time.After(forgotten + time.Second)
		if _, _, err := a.Query(t.Context(), "one too many"); err != nil {
			t.Errorf("when the other questions are forgotten: %v", err)
		}
	})
}
