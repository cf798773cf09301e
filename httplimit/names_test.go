package httplimit

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/policy"
)

// What is read once for all names is what is read for each.
func TestReadOnceEqualsReadEach(t *testing.T) {
	all := []string{"k", "key", "keys", "Key", "a_b", "a.b", "a[b", "k=", "x,y", "", "+p", "é"}
	n := &readNames{query: newNames(all), cookies: newNames(all)}
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"k", "K", "key", "keys", "s", "a", "b", "_", ".", "[", "]", "=", "=", "=", "&", ";", ",", " ", "\t", `"`, "%6b", "%", "%00", "\x00", "+", "+p", "é", "1"}
	text := func() string {
		var s strings.Builder
		for range random.IntN(24) {
			s.WriteString(pieces[random.IntN(len(pieces))])
		}
		return s.String()
	}
	found := 0
	texts := soak.Times(t, 10_000)
	for range texts {
		r := &http.Request{URL: &url.URL{RawQuery: text()}, Header: http.Header{"Cookie": {text(), text()}}}
		each := &reportedValues{ownValues: ownValues{values: values{r}}}
		for _, s := range []policy.Source{policy.FromQuery, policy.FromCookie} {
			once := &longValues{reportedValues: *each, names: n}
			for _, name := range all {
				want, wantAll := each.Read(s, name), each.ReadAll(s, name)
				if got := once.Read(s, name); got != want {
					t.Fatalf("%v %q of %q, %q: %+v, want %+v", s, name, r.URL.RawQuery, r.Header["Cookie"], got, want)
				}
				if got := once.ReadAll(s, name); !slices.Equal(got, wantAll) {
					t.Fatalf("%v %q of %q, %q: %q, want %q", s, name, r.URL.RawQuery, r.Header["Cookie"], got, wantAll)
				}
				found += len(wantAll)
			}
		}
	}
	if found < texts {
		t.Errorf("only %d values are found in %d requests", found, texts)
	}
}
