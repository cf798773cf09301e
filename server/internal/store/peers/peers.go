package peers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/redisstore"
)

const (
	// every is the time between two beats. A beat says that a server lives, and answers the open questions.
	every = time.Second
	// Silence is how long ago the last beat of a server is that counts as silent.
	Silence = 1900 * time.Millisecond
	// listed is how long a server is listed after its last beat. A server that stops says so, and is not listed any more.
	listed = 5 * time.Minute
	// open is how long a question is open after its last call of Query, and kept how long an answer is kept.
	open = 3 * time.Second
	kept = 5 * time.Second
	// forgotten is how long after its last call of Query the answers to a question are forgotten here.
	forgotten = 10 * time.Second
	// patience bounds a call of Redis.
	patience = 900 * time.Millisecond

	mostServers   = 64
	mostQuestions = 16
	// mostText bounds a question and the description of a server, in bytes.
	mostText = 1 << 10
)

// Records are the records of a space in Redis, as redisstore.Records has them.
type Records interface {
	PutRecords(ctx context.Context, records []redisstore.Record) ([]bool, error)
	RecordsSince(ctx context.Context, m redisstore.RecordMark, most int) (redisstore.RecordPage, error)
	RecordsOf(ctx context.Context, names []string) ([]redisstore.Record, error)
}

// Server is how a server describes itself. Anybody who can write to Redis can write the same, so it is for people: no
// program may connect to an address in it.
type Server struct {
	// ID is a random name of the process.
	ID string `json:"id"`
	// Name is the name of the machine, and Admin the URL of its admin listener, as it was configured.
	Name      string `json:"name"`
	Admin     string `json:"admin,omitempty"`
	Version   string `json:"version,omitempty"`
	StartedMS int64  `json:"started_ms"`
}

// Options configure Peers. All fields are required.
type Options struct {
	// Servers, Questions and Answers are three spaces.
	Servers, Questions, Answers Records
	// Self is this server; New gives it an ID.
	Self Server
	// Answer returns the answer of this server to a question; nil if it has none. It is called once a second while the
	// question is open.
	Answer func(ctx context.Context, question string) []byte
	Logger *slog.Logger
}

// Peers are the other servers of a Redis. Make them with New, and let Run run. All methods are safe for concurrent use.
type Peers struct {
	o Options

	mu      sync.Mutex
	queries map[string]*query // by question
	strange sync.Once         // a record is not of this version
}

// New returns the other servers. Until Run runs, this server is not listed by them.
func New(o Options) *Peers {
	o.Self.ID = rand.Text()
	return &Peers{o: o, queries: map[string]*query{}}
}

// Self returns this server.
func (p *Peers) Self() Server { return p.o.Self }

// Run makes the other servers list this one, and answers their questions, until the context ends.
func (p *Peers) Run(ctx context.Context) {
	text, _ := json.Marshal(p.o.Self) // it is plain data
	self := redisstore.Record{Name: p.o.Self.ID, Text: string(text), For: listed}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		p.beat(ctx, self)
		select {
		case <-ctx.Done():
			self.Removed = true
			p.beat(context.WithoutCancel(ctx), self)
			return
		case <-tick.C:
		}
	}
}

// beat says that this server lives, or that it stops, and answers the open questions. A call that fails is not repeated
// before the next beat: the health of the store has the reason.
func (p *Peers) beat(ctx context.Context, self redisstore.Record) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := p.o.Servers.PutRecords(ctx, []redisstore.Record{self}); err != nil || self.Removed {
		return
	}
	page, err := p.o.Questions.RecordsSince(ctx, redisstore.RecordMark{}, 4*mostQuestions)
	if err != nil || len(page.Records) == 0 {
		return
	}
	var answers []redisstore.Record
	for _, text := range p.others(page.Records) {
		if answer := p.o.Answer(ctx, text); answer != nil {
			answers = append(answers, redisstore.Record{Name: answerName(self.Name, text), Text: pack(answer), For: kept})
		}
	}
	if len(answers) > 0 {
		_, _ = p.o.Answers.PutRecords(ctx, answers) // the question is still open at the next beat
	}
}

// others returns the questions of other servers, up to mostQuestions.
func (p *Peers) others(records []redisstore.Record) (questions []string) {
	for i := range records {
		id, text, ok := strings.Cut(records[i].Text, " ")
		switch {
		case !ok || len(text) > mostText:
			p.complain("it is not a question of this version")
		case id != p.o.Self.ID && !slices.Contains(questions, text) && len(questions) < mostQuestions:
			questions = append(questions, text)
		}
	}
	return questions
}

// answerName names the record of an answer.
func answerName(id, question string) string { return id + " " + question }

// list returns the servers that are listed, except this one, with the ages of their last beats, and whether there are more.
func (p *Peers) list(ctx context.Context) (servers []Answer, more bool, err error) {
	page, err := p.o.Servers.RecordsSince(ctx, redisstore.RecordMark{}, mostServers+1)
	if err != nil {
		return nil, false, fmt.Errorf("peers: %w", err)
	}
	for i := range page.Records {
		r := &page.Records[i]
		var s Server
		switch {
		case r.Removed || r.Name == p.o.Self.ID:
		case len(r.Text) > mostText || json.Unmarshal([]byte(r.Text), &s) != nil || s.ID != r.Name:
			p.complain("it is not a server of this version")
		default:
			servers = append(servers, Answer{Server: s, Age: r.Age})
		}
	}
	slices.SortFunc(servers, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Admin, b.Admin), cmp.Compare(a.ID, b.ID))
	})
	return servers, page.More, nil
}

// complain logs once that a record is not used.
func (p *Peers) complain(why string) {
	p.strange.Do(func() {
		p.o.Logger.Error("a record of the store about another server is not used; later ones are not logged", "error", why)
	})
}
