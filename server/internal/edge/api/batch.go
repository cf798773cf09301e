package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
)

const (
	// mostQuestions bounds the questions of a batch.
	mostQuestions = 1000
	// mostAnswerBodies bounds the bodies that the decisions of a batch include, in bytes.
	mostAnswerBodies = 1 << 20
	// answerChunk is how many bytes of answers are collected before they are sent.
	answerChunk = 64 << 10
)

// requestsField is the field that makes the body of a call a batch.
const requestsField = "requests"

// batched is one request of a batch: what the caller wants decided, or what is wrong with it.
type batched struct {
	request
	problem *problem
}

// decodeQuestions reads the body of a call that decides: one question into q, or the questions of a batch. The list is
// nil for one question.
func decodeQuestions(r *http.Request, q *request) ([]batched, *problem) {
	b := buffers.Get().(*[]byte)
	defer keep(b)
	if p := readBody(r, b); p != nil {
		return nil, p
	}
	text := string(*b)
	if decodePlain(text, q) {
		return nil, nil
	}
	if all, ok := decodePlainBatch(text); ok {
		return all, nil
	}
	known := append(fieldsOf(q), requestsField)
	seen, p := checkKeys(*b, known)
	switch {
	case p != nil:
		return nil, p
	case !seen[requestsField]:
		return nil, decodeValue(*b, q)
	}
	for _, name := range known {
		if seen[name] && name != requestsField {
			return nil, invalid(name, fmt.Sprintf(`%q describes one request, and "requests" is a batch of them.`, name), "give each request of the batch its own fields")
		}
	}
	var body struct {
		Requests json.RawMessage `json:"requests"`
	}
	if p := decodeValue(*b, &body); p != nil {
		return nil, p
	}
	return splitBatch(body.Requests)
}

// decodePlainBatch reads a plain batch, and reports whether it could.
func decodePlainBatch(text string) ([]batched, bool) {
	in := plain{text: text}
	var all []batched
	in.object(func(name string) {
		if name != requestsField || all != nil {
			in.giveUp()
			return
		}
		all = make([]batched, 0, 16)
		in.list(func() {
			if len(all) == mostQuestions {
				in.giveUp()
				return
			}
			all = append(all, batched{})
			in.request(&all[len(all)-1].request)
		})
	})
	return all, in.ended() && all != nil
}

// splitBatch reads the questions of a list in valid JSON one by one, so that each has its own problem.
func splitBatch(list json.RawMessage) ([]batched, *problem) {
	d := json.NewDecoder(bytes.NewReader(list))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return nil, invalid(requestsField, `"requests" is not a list.`, `give the requests as a list, such as [{"client_ip": "192.0.2.1", "path": "/"}]`)
	}
	all := []batched{}
	for d.More() {
		if len(all) == mostQuestions {
			return nil, invalid(requestsField, fmt.Sprintf("There are more than %d requests.", mostQuestions), fmt.Sprintf("make a call for each %d of them", mostQuestions))
		}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return nil, explainJSON(err)
		}
		var q batched
		if !decodePlain(string(text), &q.request) {
			q.problem = decodeQuestion(text, &q.request)
		}
		all = append(all, q)
	}
	return all, nil
}

// decodeQuestion reads one question of a batch, which is valid JSON.
func decodeQuestion(text json.RawMessage, q *request) *problem {
	if text[0] != '{' {
		return invalid("", "The request is not a JSON object.", `give one such as {"client_ip": "192.0.2.1", "path": "/"}`)
	}
	return decodeObject(text, q)
}

// answerAll decides the questions of a batch, and writes the answers in the same order. It sends answers when there are
// enough of them, so that a large batch does not need much memory. When the caller has left, no further question is
// decided.
func (a *API) answerAll(ctx context.Context, w http.ResponseWriter, batch []batched, take taking) {
	b := buffers.Get().(*[]byte)
	defer keep(b)
	h := w.Header()
	h["Content-Type"] = isJSON
	s := answering{api: a, ctx: ctx, batch: batch, take: take, store: a.o.Decider.Store(), text: (*b)[:0], bodies: mostAnswerBodies}
	s.text = append(s.text, `{"answers":[`...)
	if len(batch) > 1 && !a.o.Decider.Policy().UsesMarks() {
		s.pipeline = a.o.Pipelines.Begin()
	}
	if s.pipeline != nil {
		s.store = s.pipeline
		defer s.pipeline.Finish()
	}
	sent := false
	for i := range batch {
		if ctx.Err() != nil {
			return
		}
		s.decide(i)
		if len(s.text) < answerChunk || i == len(batch)-1 {
			continue
		}
		s.finish() // a caller that does not read must not hold up decisions
		sent = true
		if _, err := w.Write(s.text); err != nil {
			return
		}
		s.text = s.text[:0]
	}
	s.finish()
	s.text = append(s.text, "]}\n"...)
	if !sent {
		h["Content-Length"] = []string{strconv.Itoa(len(s.text))}
	}
	_, _ = w.Write(s.text) // the caller may be gone
	*b = s.text
}

// answering is a batch while it is answered.
type answering struct {
	api      *API
	ctx      context.Context
	batch    []batched
	take     taking
	store    sluice.Store
	pipeline *pipeline.Pipeline // nil if the questions are decided one after another
	text     []byte             // answers that are not sent yet
	bodies   int                // how many bytes the bodies of later answers may have
}

// decide decides a question, and appends its decision or its problem. In a pipeline it may append it later.
func (s *answering) decide(i int) {
	if s.pipeline == nil {
		s.answer(i)
		return
	}
	s.pipeline.Do(func() { s.answer(i) })
}

// finish appends the answers of all questions that are being decided.
func (s *answering) finish() {
	if s.pipeline != nil {
		s.pipeline.Finish()
	}
}

func (s *answering) answer(i int) {
	a, q := s.api, &s.batch[i]
	p := q.problem
	var v policy.Verdict
	if p == nil {
		v, p = a.decide(s.ctx, s.store, &q.request, s.take, 0)
	}
	if s.pipeline != nil {
		s.pipeline.Turn()
	}
	if i > 0 {
		s.text = append(s.text, ',')
	}
	if p != nil {
		p.Type = problemType
		s.text = append(appendProblem(append(s.text, `{"problem":`...), p), '}')
		return
	}
	a.dropLeases(s.ctx, &v)
	e := a.decisionOf(&v, min(maxAnswer, s.bodies))
	if e.Answer != nil {
		s.bodies -= len(e.Answer.Body)
	}
	s.text = append(e.appendJSON(append(s.text, `{"decision":`...)), '}')
}
