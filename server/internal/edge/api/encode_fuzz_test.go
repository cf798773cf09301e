package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policyfile"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// filled sets every field of a struct, and the fields of its structs, to a text, a number or true.
func filled(v reflect.Value, text string, number int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			if !field.CanSet() { // an embedded type that is not exported
				field = reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
			}
			filled(field, text, number+int64(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), text, number)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		filled(v.Index(0), text, number)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a" + text: text, text: "b", "": text}))
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(number%3 != 0)
	default:
		v.SetInt(number)
	}
}

// FuzzAnswersAreThoseOfEncodingJSON holds the bytes of decisions and problems equal to what package encoding/json
// writes of them. So a field that the encoder forgets, or names otherwise, fails here.
func FuzzAnswersAreThoseOfEncodingJSON(f *testing.F) {
	for _, text := range []string{"", "plain", "a \"quoted\" \\ line\n\r\t\b\f\x00\x1f\x7f", "<script>&amp;</script>", "é\u2028\u2029\ufffd😀", "\xff\xc3(\xe2\x80", "\xe2\x80\xa8x\xed\xa0\x80"} {
		f.Add(text, int64(-1))
		f.Add(text, int64(1<<53))
	}
	f.Add("", int64(0))
	f.Fuzz(func(t *testing.T, text string, number int64) {
		d, p := decision{Limits: []limitDecision{}}, problem{}
		for range 2 { // without values, and with all of them
			for _, c := range []struct {
				got  []byte
				want any
			}{{d.appendJSON([]byte("x")), d}, {appendProblem([]byte("x"), &p), p}} {
				want, err := json.Marshal(c.want)
				if err != nil {
					t.Fatal(err)
				}
				if string(c.got) != "x"+string(want) {
					t.Fatalf("%q, %d:\n got %s\nwant x%s", text, number, c.got, want)
				}
			}
			filled(reflect.ValueOf(&d).Elem(), text, number)
			filled(reflect.ValueOf(&p).Elem(), text, number)
		}
	})
}

// FuzzPlainQuestions holds the quick reader of questions equal to the strict one: what it takes, the strict one takes
// too, with the same values.
func FuzzPlainQuestions(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"method":"GET","path":"/api/x","client_ip":"192.0.2.1"}`, ` { "rule" : "r" , "key" : [ "a" , "b" ] , "cost" : 7 } `, `{"key":[]}`, `{"key":"a"}`,
		`{"headers":{"X-A":["1","2"],"X-A":"3","x-b":[]},"cookies":{},"query":{"é":"ü"},"attributes":{"a":"b","a":"c"},"claims":{},"marked":true}`,
		`{"cost":-0,"max_wait_ms":-12}`, `{"cost":01}`, `{"cost":1.0}`, `{"cost":1e3}`, `{"cost":9223372036854775808}`, `{"cost":null}`, `{"marked":truex}`, `{"marked":false}`,
		`{"path":"\u002f"}`, "{\"path\":\"\xff\"}", `{"path":"/"}x`, "{\"path\":\"/\"}\x00", `{"path":"/",}`, `{"Path":"/"}`, `{"path":"/","path":"/"}`, `[]`, `null`, `{"requests":[]}`, `{"cost":-}`, `{"cost":`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var quick, strict request
		if !decodePlain(string(body), &quick) {
			if !reflect.DeepEqual(quick, request{}) {
				t.Fatalf("%q was not taken, and left %+v", body, quick)
			}
			return
		}
		if p := decodeObject(body, &strict); p != nil || !reflect.DeepEqual(quick, strict) {
			t.Fatalf("%q: %+v\nwant %+v, %v", body, quick, strict, p)
		}
	})
}

// FuzzBatches sends any bodies, as they are and as a request of a batch. Each request of a batch is answered as it is
// by itself, whatever is beside it.
func FuzzBatches(f *testing.F) {
	file, err := policyfile.Parse("test.yaml", []byte("version: 1\n"+perClient))
	if err != nil {
		f.Fatal(err)
	}
	p, err := file.Policy()
	if err != nil {
		f.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer store.Close()
	a, err := New(Options{
		Decider: deciding(f, p, store), Fingerprint: func(sluice.Key) string { return "0" },
		DeniedKeys: func(context.Context, string, int) (none wire.Keys) { return none }, Pressure: func(string) float64 { return 0 }, Overrides: noOverrides{},
	})
	if err != nil {
		f.Fatal(err)
	}
	defer a.Close()
	peek := func(body string) (int, []byte) {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/peek", strings.NewReader(body)))
		return w.Code, bytes.TrimSpace(w.Body.Bytes())
	}
	for _, body := range []string{`{}`, `{"client_ip":"192.0.2.1"}`, `{"client_ip":"x"}`, `{"cost":0}`, `7`, `[`, `{"path":"\n"}`, `{"requests":[{}]}`, `{"a":{"b":[]}}`, `{},{}`, `]`, `null`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		alone, text := peek(body)
		if !json.Valid([]byte(body)) || !utf8.ValidString(body) {
			if alone == http.StatusOK {
				t.Fatalf("%q is answered %s", body, text)
			}
			return
		}
		status, all := peek(`{"requests":[{},` + body + `,{}]}`)
		var got struct {
			Answers []struct{ Decision, Problem json.RawMessage }
		}
		if err := json.Unmarshal(all, &got); err != nil || status != http.StatusOK || len(got.Answers) != 3 || got.Answers[0].Decision == nil || got.Answers[2].Decision == nil {
			t.Fatalf("%q is answered %d %s", body, status, all)
		}
		switch one := got.Answers[1]; {
		case alone == http.StatusOK && bytes.HasPrefix(text, []byte(`{"answers"`)): // a batch in a batch
			if one.Problem == nil {
				t.Fatalf("%q in a batch: %s", body, one.Decision)
			}
		case alone == http.StatusOK && !bytes.Equal(one.Decision, text):
			t.Fatalf("%q: %s\nin a batch: %s", body, text, one.Decision)
		case alone != http.StatusOK && one.Problem == nil:
			t.Fatalf("%q: %s\nin a batch: %s", body, text, one.Decision)
		}
	})
}
