package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/checks/redistest"
)

// password is the password of the users in docs/redis.acl.
const password = "CHANGE-ME"

// DocumentedUser returns the words of a user in docs/redis.acl, after the name.
func DocumentedUser(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.acl"))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "user" && words[1] == name {
			return words[2:]
		}
	}
	tb.Fatalf("docs/redis.acl has no user %s", name)
	return nil
}

// SetUser makes a user with the words of a documented one, and returns the route to the
// server as that user.
func SetUser(tb testing.TB, s *redistest.Server, name string, words []string) Route {
	tb.Helper()
	if _, err := s.Do(tb.Context(), append([]string{"ACL", "SETUSER", name, "reset"}, words...)...); err != nil {
		tb.Fatal(err)
	}
	return To(s.Addr()).As(name)
}

// As returns the route as a documented user, under a name.
func (r Route) As(name string) Route {
	r.User, r.Password = name, password
	return r
}
