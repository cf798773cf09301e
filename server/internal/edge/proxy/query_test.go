package proxy

import "testing"

// A query is sent beside the upstream's own query as the client sent it, without the parts that Go cannot parse.
func TestCleansQueries(t *testing.T) {
	for query, want := range map[string]string{
		"":              "",
		"b=1&a=2":       "b=1&a=2",
		"a=%2F&a&=":     "a=%2F&a&=",
		"b=1&a=%zz":     "b=1",
		"b=1;c=2&a=3":   "a=3",
		"%=1":           "",
		"b=2&a=1&x=%":   "a=1&b=2",
		"b=+&a=%20&c=d": "b=+&a=%20&c=d",
	} {
		if got := cleanQuery(query); got != want {
			t.Errorf("%q becomes %q, want %q", query, got, want)
		}
	}
}
