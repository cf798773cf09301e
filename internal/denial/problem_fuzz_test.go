package denial

import (
	"encoding/json"
	"net/http"
	"testing"
)

// Problem.Write sends the same JSON as encoding/json.
func FuzzProblem(f *testing.F) {
	f.Add("about:blank", "Title", 429, "detail", "a", "b")
	f.Add("", `"\`, 0, "<&>", "é\xff", "\u2028\x00\n")
	f.Fuzz(func(t *testing.T, kind, title string, status int, detail, a, b string) {
		p := Problem{Type: kind, Title: title, Status: status, Detail: detail, ViolatedPolicies: []string{a, b}}
		want, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		w := &keptBody{header: make(http.Header)}
		p.Write(w)
		if string(w.body) != string(want)+"\n" || w.status != status {
			t.Fatalf("got %d %s; want %s", w.status, w.body, want)
		}
	})
}

// keptBody is a ResponseWriter that accepts any status.
type keptBody struct {
	header http.Header
	status int
	body   []byte
}

func (w *keptBody) Header() http.Header         { return w.header }
func (w *keptBody) WriteHeader(status int)      { w.status = status }
func (w *keptBody) Write(p []byte) (int, error) { w.body = append(w.body, p...); return len(p), nil }
