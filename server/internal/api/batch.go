package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
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

// question is one request of a batch: what the caller wants decided, or what is wrong with it.
type question struct {
	request
	problem *problem
}

// decodeQuestions reads the body of a call that decides: one question into q, or the questions of a batch. The list is
// nil for one question.
func decodeQuestions(r *http.Request, q *request) ([]question, *problem) {
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
func decodePlainBatch(text string) ([]question, bool) {
	in := plain{text: text}
	var all []question
	in.object(func(name string) {
		if name != requestsField || all != nil {
			in.giveUp()
			return
		}
		all = make([]question, 0, 16)
		in.list(func() {
			if len(all) == mostQuestions {
				in.giveUp()
				return
			}
			all = append(all, question{})
			in.request(&all[len(all)-1].request)
		})
	})
	return all, in.ended() && all != nil
}

// splitBatch reads the questions of a list in valid JSON one by one, so that each has its own problem.
func splitBatch(list json.RawMessage) ([]question, *problem) {
	d := json.NewDecoder(bytes.NewReader(list))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return nil, invalid(requestsField, `"requests" is not a list.`, `give the requests as a list, such as [{"client_ip": "192.0.2.1", "path": "/"}]`)
	}
	all := []question{}
	for d.More() {
		if len(all) == mostQuestions {
			return nil, invalid(requestsField, fmt.Sprintf("There are more than %d requests.", mostQuestions), fmt.Sprintf("make a call for each %d of them", mostQuestions))
		}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return nil, explainJSON(err)
		}
		var q question
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

// answerAll decides the questions of a batch one after another, and writes the answers in the same order. It sends
// answers when there are enough of them, so that a large batch does not need much memory. When the caller has left,
// the rest is not decided.
func (a *API) answerAll(ctx context.Context, w http.ResponseWriter, batch []question, peek bool) {
	b := buffers.Get().(*[]byte)
	defer keep(b)
	h := w.Header()
	h["Content-Type"] = isJSON
	text, bodies, sent := (*b)[:0], mostAnswerBodies, false
	text = append(text, `{"answers":[`...)
	for i := range batch {
		if ctx.Err() != nil {
			return
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = a.appendAnswer(ctx, text, &batch[i], peek, &bodies)
		if len(text) < answerChunk || i == len(batch)-1 {
			continue
		}
		sent = true
		if _, err := w.Write(text); err != nil {
			return
		}
		text = text[:0]
	}
	text = append(text, "]}\n"...)
	if !sent {
		h["Content-Length"] = []string{strconv.Itoa(len(text))}
	}
	_, _ = w.Write(text) // the caller may be gone
	*b = text
}

// appendAnswer decides one question, and appends its decision or its problem. It takes the bodies of answers
// from what is left for them.
func (a *API) appendAnswer(ctx context.Context, text []byte, q *question, peek bool, bodies *int) []byte {
	p := q.problem
	if p == nil {
		v, refused := a.decide(ctx, &q.request, peek)
		if refused == nil {
			a.dropLeases(ctx, &v)
			e := a.decisionOf(&v, min(maxAnswer, *bodies))
			if e.Answer != nil {
				*bodies -= len(e.Answer.Body)
			}
			return append(e.appendJSON(append(text, `{"decision":`...)), '}')
		}
		p = refused
	}
	p.Type = problemType
	return append(p.appendJSON(append(text, `{"problem":`...)), '}')
}
