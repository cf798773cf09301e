package httplimit_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"testing"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
)

// The server removes the files of its own requests' forms only, and the handler may get a copy of the request.
func TestFormsLeaveNoFiles(t *testing.T) {
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	t.Setenv("TMP", files)
	clock := int64(1e6)
	rule := policy.Rule{Name: "marks", Limits: hourly(1), WhenLimited: policy.LimitedAction{Action: policy.Mark}}
	copied := 0
	s := served(t, wrap(t, ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, rule), httplimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(files); err != nil || len(left) == 0 {
			t.Errorf("the form is not in a file, %v", err)
		}
		if r.Header.Get(removal.Marked) != "" {
			copied++
		}
	})))
	for range 3 {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("file", "name")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(part, "%11000000d", 1) // more than memory ever keeps
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(s.URL, w.FormDataContentType(), &form)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	s.Close() // when all requests have ended
	if left, err := os.ReadDir(files); err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	if copied == 0 {
		t.Error("no request was copied")
	}
}
