package threats

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// minimizing bounds the time for one attack.
const minimizing = 10 * time.Second

// minimize returns the smallest attack that still breaks a promise at a service, and what the
// service recorded. It returns nil if the attack does not break it again.
func (w *world) minimize(a attack, s *protected, promise string) (smallest attack, found *record, answer string) {
	try := func(a attack) bool {
		r, text := w.again(a, s, promise)
		if r == nil {
			return false
		}
		smallest, found, answer = a, r, text
		return true
	}
	if !try(a) {
		return nil, nil, ""
	}
	shrink(a, try)
	return smallest, found, answer
}

// shrink returns the smallest attack that still does something, as far as it finds one in a bounded time.
func shrink(a attack, does func(attack) bool) attack {
	begun := time.Now()
	for changed := true; changed; {
		changed = false
		for i := range a {
			for _, t := range smaller(a[i]) {
				if time.Since(begun) > minimizing {
					return a
				}
				next := slices.Clone(a)
				next[i] = t
				if does(next) {
					a, changed = next, true
					break
				}
			}
		}
	}
	return a
}

// smaller returns simpler texts for a piece of an attack.
func smaller(t token) []token {
	if t.text == t.plain {
		return nil
	}
	all := []token{{t.plain, t.plain}}
	if t.plain != "" && len(t.plain) < len(t.text) && strings.HasSuffix(t.text, "\r\n") {
		all = append(all, token{"", ""})
	}
	kept := strings.TrimSuffix(t.text, "\r\n")
	for size := len(kept) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(kept); i += size {
			all = append(all, token{t.text[:i] + t.text[i+size:], t.plain})
		}
	}
	return all
}

// again sends an attack to a service once more. It returns the record that breaks the promise, if
// there is one, and what the sluice answered.
func (w *world) again(a attack, s *protected, promise string) (*record, string) {
	tag := fmt.Sprintf("c%07d", w.tags.Add(1))
	answer, err := s.attack(w.bytes(a, tag))
	if err != nil {
		return nil, ""
	}
	if err := w.sync(s); err != nil {
		return nil, ""
	}
	all, _ := w.records.take()
	for _, r := range all {
		if r.Server == s.server && slices.Contains(breaches(r), promise) {
			return r, answer
		}
	}
	return nil, ""
}

// bytes returns what an attack sends.
func (w *world) bytes(a attack, tag string) []byte {
	return []byte(strings.ReplaceAll(w.tagged(a.String()), tagWord, tag))
}

// quote returns the text of an attack with a line for each line of it.
func quote(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&b, "    %q\n", line)
	}
	return b.String()
}

// statuses returns the status lines of answers.
func statuses(answer string) []string {
	var all []string
	for line := range strings.Lines(answer) {
		if at := strings.Index(line, "HTTP/1."); at >= 0 {
			all = append(all, strings.TrimSpace(line[at:]))
		}
	}
	return all
}
