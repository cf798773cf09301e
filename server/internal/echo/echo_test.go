package echo

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswersWithTheRequest(t *testing.T) {
	srv := httptest.NewServer(Handler{})
	defer srv.Close()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/some%20path?q=1", strings.NewReader("the body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Two", "b")
	req.Header.Set("X-One", "a")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	for _, want := range []string{"POST /some%20path?q=1 HTTP/1.1\n", "X-One: a\nX-Two: b\n", "\n\nthe body\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the answer lacks %q:\n%s", want, text)
		}
	}
}

func TestBoundsTheBody(t *testing.T) {
	w := httptest.NewRecorder()
	Handler{}.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 10*maxBody))))
	if n := w.Body.Len(); n > maxBody+1024 {
		t.Errorf("the answer has %d bytes", n)
	}
}

func TestHasNoOperatorsPages(t *testing.T) {
	for _, path := range operational {
		for _, path := range []string{path, path + "/x"} {
			w := httptest.NewRecorder()
			Handler{}.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != http.StatusNotFound {
				t.Errorf("%s answers %d", path, w.Code)
			}
		}
	}
}

func TestRepeatsNoSecrets(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/a?access_token=hunter2&q=plain&%41pi_key=hunter2;password=hunter2", nil)
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Csrf-Token"} {
		r.Header.Set(name, "Bearer hunter2")
	}
	w := httptest.NewRecorder()
	Handler{}.ServeHTTP(w, r)
	text := w.Body.String()
	if strings.Contains(text, "hunter2") {
		t.Errorf("the answer has a secret:\n%s", text)
	}
	for _, want := range []string{"GET /a?access_token=(hidden)&q=plain&%41pi_key=(hidden);password=(hidden) HTTP", "Authorization: (hidden)\n", "X-Api-Key: (hidden)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the answer lacks %q:\n%s", want, text)
		}
	}
}
