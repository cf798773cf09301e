package modelusage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
)

// formats are all formats that have an answer.
var formats = []Format{OpenAIChat, OpenAICompletions, OpenAIResponses, OpenAIEmbeddings, AnthropicMessages, GeminiGenerate}

// scan returns what a scanner finds in an answer that comes in pieces, which end at the given indexes.
func scan(f Format, stream bool, answer []byte, ends ...int) expected {
	s := NewScanner(f, stream)
	from := 0
	for _, end := range append(ends, len(answer)) {
		_, _ = s.Write(answer[from:end])
		from = end
	}
	var got expected
	got.usage, got.found = s.Usage()
	got.complete = s.Complete()
	return got
}

// randomEnds returns indexes in order, at which an answer is split.
func randomEnds(r *rand.Rand, length int) (ends []int) {
	step := 1 + r.IntN(1+length)
	if r.IntN(3) == 0 {
		step = 1 + r.IntN(4)
	}
	for at := r.IntN(step + 1); at <= length; at += 1 + r.IntN(step) {
		ends = append(ends, at)
	}
	return ends
}

// A writer writes random JSON in random spellings.
type writer struct {
	*rand.Rand
	bytes.Buffer
}

var names = strings.Fields(`usage usageMetadata x_groq message response type choices candidates finishReason promptFeedback blockReason
	prompt_tokens completion_tokens total_tokens prompt_tokens_details cached_tokens input_tokens output_tokens input_tokens_details
	cache_read_input_tokens cache_creation_input_tokens promptTokenCount candidatesTokenCount totalTokenCount thoughtsTokenCount
	cachedContentTokenCount toolUsePromptTokenCount content Usage usag usages arguments`)

var texts = []string{
	"", "message_stop", "response.completed", "response.failed", "STOP", `{"usage":{"prompt_tokens":7}}`, `\`, `"`, "\n", "é", "\u2028", "😀", "data: x\n\n",
	`"usage":{"input_tokens":9}`, strings.Repeat("x", 200), strings.Repeat(`\"`, 50),
}

var numbers = []string{
	"0", "1", "12", "345", "-1", "-0", "1e3", "1E+2", "15e-1", "10e-1", "2.50e1", "0.5", "1e400", "9007199254740991", "9007199254740992", "1e-400",
	"123456789012345678901234567890", "0.000e999999999999", "1" + strings.Repeat("0", 31), "1" + strings.Repeat("0", 32), "1.0", "-1e0",
}

func (w *writer) space() {
	if w.IntN(4) == 0 {
		w.WriteString([]string{" ", "\t", "  "}[w.IntN(3)])
	}
}

func (w *writer) text(text string) {
	if w.IntN(5) > 0 {
		plain, _ := json.Marshal(text)
		w.Write(plain)
		return
	}
	w.WriteByte('"')
	for _, c := range text {
		if c >= 0x10000 {
			c = '?'
		}
		if w.IntN(2) == 0 || c < ' ' || c == '"' || c == '\\' {
			fmt.Fprintf(w, []string{`\u%04x`, `\u%04X`}[w.IntN(2)], c)
		} else {
			w.WriteRune(c)
		}
	}
	w.WriteByte('"')
}

func (w *writer) value(depth int) {
	w.space()
	kind := w.IntN(10)
	switch {
	case kind < 5 && depth < 7:
		w.object(depth, names[w.IntN(len(names))], names[w.IntN(len(names))], names[w.IntN(len(names))])
	case kind == 5 && depth < 7:
		w.WriteByte('[')
		for i := range w.IntN(4) {
			if i > 0 {
				w.WriteByte(',')
			}
			w.value(depth + 1)
		}
		w.WriteByte(']')
	case kind == 6:
		w.text(texts[w.IntN(len(texts))])
	case kind == 7:
		w.WriteString([]string{"true", "false", "null"}[w.IntN(3)])
	default:
		w.WriteString(numbers[w.IntN(len(numbers))])
	}
	w.space()
}

func (w *writer) object(depth int, members ...string) {
	w.WriteByte('{')
	for i, name := range members {
		if i > 0 {
			w.WriteByte(',')
		}
		w.space()
		w.text(name)
		w.space()
		w.WriteByte(':')
		w.space()
		switch {
		case w.IntN(3) == 0:
			w.value(depth + 1)
		case strings.Contains(name, "etails"):
			w.object(depth+1, "cached_tokens", "audio_tokens")
		case strings.Contains(name, "okens") || strings.Contains(name, "Count"):
			w.WriteString(numbers[w.IntN(len(numbers))])
		case name == "usage":
			w.object(depth+1, names[11+w.IntN(9)], names[11+w.IntN(9)], names[11+w.IntN(9)], names[11+w.IntN(9)])
		case name == "usageMetadata":
			w.object(depth+1, names[20+w.IntN(6)], names[20+w.IntN(6)], names[20+w.IntN(6)])
		case name == "x_groq" || name == "message" || name == "response":
			w.object(depth+1, "usage", names[w.IntN(len(names))])
		case name == "candidates":
			w.WriteByte('[')
			w.object(depth+2, "finishReason", "content")
			w.WriteByte(']')
		case name == "type" || name == "finishReason" || name == "blockReason":
			w.text(texts[w.IntN(len(texts))])
		default:
			w.value(depth + 1)
		}
	}
	w.space()
	w.WriteByte('}')
}

// document writes a random answer or event.
func (w *writer) document(f Format) {
	usage := "usage"
	if f == GeminiGenerate {
		usage = "usageMetadata"
	}
	members := []string{usage, names[w.IntN(len(names))], names[w.IntN(len(names))], names[w.IntN(5)]}
	w.Shuffle(len(members), func(i, k int) { members[i], members[k] = members[k], members[i] })
	if w.IntN(4) > 0 {
		w.object(0, members[:w.IntN(5)]...)
		return
	}
	w.WriteByte('[')
	for i := range w.IntN(4) {
		if i > 0 {
			w.WriteByte(',')
		}
		w.object(1, members...)
	}
	w.WriteByte(']')
}

// TestScannerFindsWhatTheOracleFinds holds the scanner to the oracle over random answers in random pieces.
func TestScannerFindsWhatTheOracleFinds(t *testing.T) {
	t.Parallel()
	found, completed := 0, 0
	answers := soak.Times(t, 1_000)
	for seed := range uint64(answers) {
		r := rand.New(rand.NewPCG(seed, 26))
		f, stream := formats[r.IntN(len(formats))], r.IntN(2) == 0
		var answer []byte
		var documents [][]byte
		if stream {
			ends := []string{"\n", "\r\n", "\r"}[r.IntN(3)]
			var all bytes.Buffer
			for range r.IntN(5) {
				w := writer{Rand: r}
				w.document(f)
				documents = append(documents, w.Bytes())
				all.WriteString([]string{"", ": alive" + ends + ends, "event: x" + ends}[r.IntN(3)])
				data := w.String()
				if r.IntN(3) == 0 {
					// White space may be the end of a line of data.
					data = strings.ReplaceAll(data, "\t", ends+"data:")
				}
				all.WriteString("data:" + strings.Repeat(" ", r.IntN(2)) + data + ends + ends)
			}
			if r.IntN(3) == 0 {
				documents = append(documents, []byte("[DONE]"))
				all.WriteString("data: [DONE]" + ends + ends)
			}
			answer = all.Bytes()
		} else {
			w := writer{Rand: r}
			w.document(f)
			answer, documents = w.Bytes(), [][]byte{w.Bytes()}
		}
		want, valid := oracle(f, stream, documents)
		if !valid {
			t.Fatalf("seed %d: the test made an answer that is not JSON: %q", seed, answer)
		}
		ends := randomEnds(r, len(answer))
		if got := scan(f, stream, answer, ends...); got != want {
			t.Fatalf("seed %d, format %v, stream %v, pieces end at %v: the scanner found %+v, the oracle %+v in\n%s", seed, f, stream, ends, got, want, answer)
		}
		if want.found {
			found++
		}
		if want.complete {
			completed++
		}
	}
	if least := answers / 8; found < least || completed < least {
		t.Errorf("of %d random answers %d had a usage and %d were complete, want at least %d each", answers, found, completed, least)
	}
}
