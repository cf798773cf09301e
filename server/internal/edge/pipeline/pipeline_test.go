package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

var (
	three  = sluice.MustLimit("three", sluice.FixedWindow{Rate: sluice.PerDay(3)})
	shared = sluice.MustLimit("shared", sluice.FixedWindow{Rate: sluice.PerDay(1000)})
	one    = sluice.MustLimit("one", sluice.Concurrency{Max: 1, TTL: time.Hour})
)

func units(l *sluice.Limit, key string) sluice.Request {
	return sluice.Request{Limit: l, Key: sluice.StringKey(key), Cost: 1}
}

// answering is a pipeline whose answers are kept, in the order in which they were given.
type answering struct {
	*testing.T
	*Pipeline
	answers []string
}

func begin(t *testing.T, store sluice.Store, sharded bool) *answering {
	all := New(store, 1024, sharded)
	t.Cleanup(all.Close)
	return &answering{T: t, Pipeline: all.Begin()}
}

// add adds a question about some requests as one.
func (a *answering) add(rs ...sluice.Request) {
	a.Do(func() {
		out := make([]sluice.Decision, len(rs))
		var err error
		if len(rs) == 1 {
			out[0], err = a.Pipeline.Decide(a.Context(), rs[0])
		} else {
			err = a.Pipeline.DecideAll(a.Context(), rs, out)
		}
		a.Turn()
		a.answers = append(a.answers, answer(rs, out, err))
	})
}

// answer puts decisions into words.
func answer(rs []sluice.Request, out []sluice.Decision, err error) string {
	if err != nil {
		return err.Error()
	}
	text := ""
	for i := range out {
		text += fmt.Sprintf("%s %v %d ", rs[i].Key.Text(), out[i].Allowed, out[i].Remaining)
	}
	return text
}

func (a *answering) want(answers ...string) {
	a.Helper()
	if !slices.Equal(a.answers, answers) {
		a.Errorf("the answers are %q, want %q", a.answers, answers)
	}
}

// Questions about one key are decided in their order, by one call if the store is one server.
func TestOneKeyIsDecidedInOrder(t *testing.T) {
	for _, sharded := range []bool{false, true} {
		store := newDistant(t)
		a := begin(t, store, sharded)
		for range 5 {
			a.add(units(three, "k"))
		}
		a.Finish()
		a.want("k true 2 ", "k true 1 ", "k true 0 ", "k false 0 ", "k false 0 ")
		if most := map[bool]int{false: 1, true: 2}[sharded]; len(store.calls) != most {
			t.Errorf("sharded %v: the calls are %v, want %d", sharded, store.calls, most)
		}
	}
}

// Questions about different keys share a call, or are in flight at the same time.
func TestDifferentKeys(t *testing.T) {
	for _, sharded := range []bool{false, true} {
		var together sync.WaitGroup
		together.Add(32)
		store := newDistant(t)
		store.hold = func(rs []sluice.Request) {
			if sharded {
				together.Done()
				together.Wait()
			}
		}
		a := begin(t, store, sharded)
		var want []string
		for i := range 32 {
			a.add(units(three, strconv.Itoa(i)))
			want = append(want, fmt.Sprintf("%d true 2 ", i))
		}
		a.Finish()
		a.want(want...)
		if most := map[bool]int{false: 1, true: 32}[sharded]; len(store.calls) != most {
			t.Errorf("sharded %v: %d calls, want %d", sharded, len(store.calls), most)
		}
	}
}

// Questions about several limits are decided at the same time, unless they have a key in common.
func TestQuestionsWithoutACommonKeyAreDecidedAtOnce(t *testing.T) {
	var together sync.WaitGroup
	together.Add(3)
	store := newDistant(t)
	store.hold = func(rs []sluice.Request) {
		if len(rs) == 2 && rs[1].Limit == three {
			together.Done()
			together.Wait()
		}
	}
	a := begin(t, store, false)
	for i := range 3 {
		a.add(units(three, "a"+strconv.Itoa(i)), units(three, "b"+strconv.Itoa(i)))
	}
	a.add(units(three, "c"), units(shared, "all"))
	a.add(units(three, "c"))
	a.add(units(three, "d"), units(shared, "all"))
	a.add(units(shared, "all"))
	a.Finish()
	a.want("a0 true 2 b0 true 2 ", "a1 true 2 b1 true 2 ", "a2 true 2 b2 true 2 ",
		"c true 2 all true 999 ", "c true 1 ", "d true 2 all true 998 ", "all true 997 ")
}

// A question that has been decided decides further requests at once, and so does a caller outside of questions.
func TestDecidesInItsTurn(t *testing.T) {
	store := newDistant(t)
	a := begin(t, store, false)
	decide := func(rs ...sluice.Request) {
		out := make([]sluice.Decision, len(rs))
		var err error
		if len(rs) == 1 {
			out[0], err = a.Pipeline.Decide(t.Context(), rs[0])
		} else {
			err = a.Pipeline.DecideAll(t.Context(), rs, out)
		}
		a.answers = append(a.answers, answer(rs, out, err))
	}
	a.add(units(three, "k"))
	a.Do(func() {
		decide(units(three, "k"))
		decide(units(three, "k"), units(shared, "all"))
		decide(units(shared, "all"))
	})
	a.Finish()
	decide(units(three, "k"), units(shared, "all"))
	decide(units(shared, "all"))
	a.want("k true 2 ", "k true 1 ", "k true 0 all true 999 ", "all true 998 ", "k false 0 all true 998 ", "all true 997 ")
}

// A lease that a question gives back in its answer is free for the next question.
func TestLeasesAreFreeForTheNextQuestion(t *testing.T) {
	store := newDistant(t)
	a := begin(t, store, false)
	for i := range 4 {
		a.Do(func() {
			r := units(one, "k")
			r.Member = uint64(1 + i)
			d, err := a.Pipeline.Decide(t.Context(), r)
			a.Turn()
			a.answers = append(a.answers, answer([]sluice.Request{r}, []sluice.Decision{d}, err))
			if err := a.Cancel(t.Context(), r.Charge(&d)); err != nil {
				t.Error(err)
			}
		})
	}
	a.Finish()
	a.want("k true 0 ", "k true 0 ", "k true 0 ", "k true 0 ")
}

// A question that needs no call is answered in its turn. It waits if an earlier question is about the same key.
func TestLocalDecisions(t *testing.T) {
	store := newDistant(t)
	store.local = func(k sluice.Key) bool { return k.Text() != "far" }
	a := begin(t, store, false)
	a.add(units(three, "near"))
	if a.Pending() {
		t.Error("a question that needs no call is not answered at once")
	}
	a.add(units(three, "far"))
	a.add(units(three, "near"))
	a.add(units(three, "also"), units(shared, "far"))
	a.add(units(three, "also"))
	a.add(sluice.Request{Limit: three, Cost: -1})
	a.Finish()
	if len(a.answers) != 6 {
		t.Fatalf("want an answer to each of 6 questions, got %v", a.answers)
	}
	invalid := a.answers[5]
	a.want("near true 2 ", "far true 2 ", "near true 1 ", "also true 2 far true 999 ", "also true 1 ", invalid)
	if want := []string{"near", "near"}; !slices.Equal(store.near, want) {
		t.Errorf("decided locally: %v, want %v", store.near, want)
	}
}

// Beyond the bounds, questions are decided one after another, and no room is lost.
func TestQuestionsBeyondTheBoundsWait(t *testing.T) {
	store := newDistant(t)
	all := New(store, 8, true) // two calls beside each pipeline's own
	t.Cleanup(all.Close)
	a := &answering{T: t, Pipeline: all.Begin()}
	var want []string
	for i := range 3 * depth {
		if i == 2*depth {
			a.Finish()
			for range mostPaused {
				all.paused <- struct{}{}
			}
		}
		a.add(units(three, strconv.Itoa(i)))
		if len(a.paused) > depth || i >= 2*depth && a.Pending() {
			t.Fatalf("%d questions are paused", len(a.paused))
		}
		want = append(want, fmt.Sprintf("%d true 2 ", i))
	}
	for range mostPaused {
		<-all.paused
	}
	a.Finish()
	a.want(want...)
	if len(all.paused)+len(all.calls)+len(a.last) != 0 || len(all.idle) == 0 {
		t.Errorf("%d questions, %d calls and %d keys are left, %d routines are kept", len(all.paused), len(all.calls), len(a.last), len(all.idle))
	}
}

// A question that panics does not keep the others from their answers.
func TestAPanicKeepsNoOthersFromAnswers(t *testing.T) {
	a := begin(t, newDistant(t), false)
	func() {
		defer func() {
			if v := recover(); v != "mine" {
				t.Errorf("recovered %v", v)
			}
		}()
		defer a.Finish()
		a.add(units(three, "k"))
		a.Do(func() {
			if _, err := a.Pipeline.Decide(t.Context(), units(three, "k")); err != nil {
				t.Error(err)
			}
			panic("mine")
		})
		a.add(units(three, "k"), units(shared, "k"))
		a.add(units(three, "k"))
		a.Finish()
	}()
	a.want("k true 2 ", "k true 0 k true 999 ", "k false 0 ")
	a.answers = nil
	a.add(units(shared, "k"))
	a.Finish()
	a.want("k true 998 ")
}

// A store that decides all requests by itself needs no pipeline.
func TestCompleteStoresNeedNoPipeline(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	all := New(store, 1024, false)
	if all != nil || all.Begin() != nil {
		t.Error("the memory store has pipelines")
	}
	all.Close()
}

// TestDecidesAsOneByOne puts random questions into pipelines. The decisions equal the decisions about the same questions one
// after another.
func TestDecidesAsOneByOne(t *testing.T) {
	limits := []*sluice.Limit{
		three, shared, sluice.MustLimit("bucket", sluice.TokenBucket{Rate: sluice.PerDay(5), Burst: 5}),
		sluice.MustLimit("leaky", sluice.LeakyBucket{Rate: sluice.PerDay(4), Queue: 3}),
		sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(4), CountDenied: true}),
	}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var stores [2]*distant
		for i := range stores {
			memory, err := memory.New(memory.Options{MaxBytes: 1 << 20, Clock: func() int64 { return 1_700_000_000_000_000 }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = memory.Close() })
			stores[i] = &distant{Store: memory}
		}
		if rnd.IntN(2) == 0 {
			stores[0].local = func(k sluice.Key) bool { return k.Text() == "0" }
		}
		all := New(stores[0], 1024, rnd.IntN(2) == 0)
		p := all.Begin()
		var got, want []string
		for range 100 {
			var rs []sluice.Request
			for range 1 + rnd.IntN(2)*rnd.IntN(3) {
				r := units(limits[rnd.IntN(len(limits))], strconv.Itoa(rnd.IntN(6)))
				r.Cost, r.Peek = rnd.Int64N(3), rnd.IntN(6) == 0
				if rnd.IntN(5) == 0 {
					r.Ban = &sluice.Ban{After: 2, For: time.Hour}
				}
				if rnd.IntN(5) == 0 {
					r.MaxWait = time.Hour
				}
				rs = append(rs, r)
			}
			decide := func(store sluice.Store, answers *[]string) {
				out := make([]sluice.Decision, len(rs))
				var err error
				if len(rs) == 1 {
					out[0], err = store.Decide(t.Context(), rs[0])
				} else {
					err = store.DecideAll(t.Context(), rs, out)
				}
				p.Turn()
				*answers = append(*answers, fmt.Sprint(out, err))
			}
			p.Do(func() { decide(p, &got) })
			decide(stores[1].Store, &want)
			if rnd.IntN(20) == 0 {
				p.Finish()
			}
		}
		p.Finish()
		all.Close()
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d answers, want %d", seed, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d, question %d:\n%s, want\n%s", seed, i, got[i], want[i])
			}
		}
	}
}

// An error of the store is the answer to each question of the call.
func TestStoreErrorsAnswerEachQuestion(t *testing.T) {
	store := newDistant(t)
	store.Store = failing{store.Store}
	a := begin(t, store, false)
	a.add(units(three, "a"))
	a.add(units(three, "b"))
	a.add(units(three, "a"), units(three, "c"))
	a.Finish()
	a.want("down", "down", "down")
}

type failing struct{ sluice.Store }

var errDown = errors.New("down")

func (failing) Decide(context.Context, sluice.Request) (d sluice.Decision, err error) {
	return d, errDown
}

func (failing) DecideAll(context.Context, []sluice.Request, []sluice.Decision) error { return errDown }

// A request without a limit is an error of its question, and the questions beside it are decided.
func TestRequestsWithoutALimit(t *testing.T) {
	a := begin(t, newDistant(t), false)
	a.add(units(three, "a"), units(shared, "a"))
	a.add(units(three, "a"), sluice.Request{})
	a.add(sluice.Request{Key: sluice.StringKey("a"), Cost: 1})
	a.add(units(three, "a"))
	a.Finish()
	if len(a.answers) != 4 || !strings.Contains(a.answers[1], "has no limit") || !strings.Contains(a.answers[2], "has no limit") || strings.Contains(a.answers[0]+a.answers[3], "has no limit") {
		t.Errorf("the answers are %q", a.answers)
	}
}
