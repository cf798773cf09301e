package process

import (
	"io"
	"net/http"
	"testing"
)

// Get returns the text that an address answers with.
func Get(tb testing.TB, address string) string {
	tb.Helper()
	q, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
