package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// topView is what top shows. It has no terminal and no clock.
type topView struct {
	server  string
	frames  []topFrame        // of the last minute, the latest last
	keys    map[string]string // the texts of keys that the server revealed, by keyID; empty for a key that it does not reveal
	hidden  string            // why a key is not revealed
	trouble string

	rule      string // whose keys are shown; empty for all
	selected  string // rule
	order     int    // an index of topOrders
	filter    string
	filtering bool // keys go to the filter
	unmasked  bool
	heavy     bool // the heaviest keys come before the most limited ones
}

// topFrame is an answer of the server, and the numbers in it that grow, by their names.
type topFrame struct {
	*wire.Live

	counts map[string]uint64
}

// topRule is a rule with its rates, a second.
type topRule struct {
	wire.LiveRule

	demand, denied, units, would float64
	total                        uint64    // denials
	minute                       []float64 // denials of each second
}

// topOrders are the orders of rules: the rules with the greatest numbers come first.
var topOrders = []struct {
	name string
	by   func(r *topRule) []float64
}{
	{"denials", func(r *topRule) []float64 { return []float64{r.denied, float64(r.total), r.demand} }},
	{"requests", func(r *topRule) []float64 { return []float64{r.demand} }},
	{"pressure", func(r *topRule) []float64 { return []float64{r.Pressure} }},
	{"name", func(*topRule) []float64 { return nil }},
}

const (
	// topFrames is how many frames are kept, and topRecent over how many of them rates are measured.
	topFrames = 61
	topRecent = 10
	noRule    = "(none)" // the name of requests that no rule matched
)

// keyID identifies a key of a rule.
func keyID(rule, digest string) string { return rule + "\x00" + digest }

// countID names the count of a key. A key has two if the rule denied some requests, and only its candidate denied others.
func countID(k *wire.DeniedKey) string { return keyID(k.Rule, k.Digest) + k.Role }

// add adds a frame.
func (v *topView) add(l *wire.Live) error {
	if len(v.frames) > 0 && (v.last().StartedMS != l.StartedMS || v.last().Counted != l.Counted) {
		v.frames = nil // the server has restarted, or other servers are added
	}
	f := topFrame{l, map[string]uint64{}}
	for _, r := range l.Rules {
		if len(r.Totals) != len(l.Figures) {
			return fmt.Errorf("rule %.64q has %d figures, and %d are named; use the version of the server", r.Rule, len(r.Totals), len(l.Figures))
		}
		for i, n := range r.Totals {
			f.counts[l.Figures[i]+" "+r.Rule] = n
			if l.Figures[i] != "candidate_denied" {
				f.counts["demand "+r.Rule] += n
			}
		}
		f.counts["units "+r.Rule] = r.Units
	}
	for i := range l.Keys {
		f.counts[countID(&l.Keys[i])] = l.Keys[i].Denials
	}
	v.frames = append(v.frames[max(0, len(v.frames)+1-topFrames):], f)
	return nil
}

func (v *topView) last() *topFrame { return &v.frames[len(v.frames)-1] }

// asciiKey writes the values of a key, so that no character moves the cursor, is wider than it seems, or turns the text.
func asciiKey(values []string) string {
	words := make([]string, len(values))
	for i, text := range values {
		if words[i] = text; !plainText.MatchString(text) {
			words[i] = strconv.QuoteToASCII(text)
		}
	}
	return cmp.Or(strings.Join(words, " "), "everybody")
}

// key returns the text of a key, or its fingerprint.
func (v *topView) key(rule, digest string) string {
	if text := v.keys[keyID(rule, digest)]; text != "" && v.unmasked {
		return text
	}
	return printable(digest)
}

// press changes the view by a key, and reports whether top goes on.
func (v *topView) press(key string) bool {
	if key == "\x03" {
		return false
	}
	if v.filtering {
		switch {
		case key == "\r" || key == "esc":
			v.filtering = false
			if key == "esc" {
				v.filter = ""
			}
		case key == "\x7f" || key == "\b":
			v.filter = v.filter[:max(0, len(v.filter)-1)]
		case len(key) == 1 && key >= " ":
			v.filter += key
		}
		return true
	}
	switch key {
	case "q", "\x04":
		return false
	case "up":
		v.move(-1)
	case "down":
		v.move(1)
	case "\r":
		v.rule = v.selected
	case "esc":
		v.rule, v.filter = "", ""
	case "s":
		v.order = (v.order + 1) % len(topOrders)
	case "/":
		v.filter, v.filtering = "", true
	case "h":
		v.heavy = !v.heavy
	case "k":
		v.unmasked, v.keys, v.hidden = !v.unmasked, map[string]string{}, ""
	}
	return true
}

// move selects the rule that is so many rows below.
func (v *topView) move(rows int) {
	rules := v.rules()
	if i := slices.IndexFunc(rules, func(r topRule) bool { return r.Rule == v.selected }); len(rules) > 0 {
		v.selected = rules[min(max(i+rows, 0), len(rules)-1)].Rule
	}
}

// per returns the growth of a number in a second, over the latest frames.
func (v *topView) per(name string) float64 {
	last := v.last()
	to := last.counts[name]
	for _, first := range v.frames[max(0, len(v.frames)-1-topRecent):] {
		if from, known := first.counts[name]; known && to >= from && last.AtMS > first.AtMS {
			return float64(to-from) / float64(last.AtMS-first.AtMS) * 1000
		}
	}
	return 0
}

// rules returns the rules of the view, in their order.
func (v *topView) rules() (rules []topRule) {
	for _, l := range v.last().Rules {
		if !strings.Contains(l.Rule, v.filter) {
			continue
		}
		denied := "denied " + l.Rule
		r := topRule{
			LiveRule: l, demand: v.per("demand " + l.Rule), denied: v.per(denied), units: v.per("units " + l.Rule),
			would: v.per("shadow_denied "+l.Rule) + v.per("candidate_denied "+l.Rule), total: v.last().counts[denied],
		}
		for i := 1; i < len(v.frames); i++ {
			from, to := v.frames[i-1].counts[denied], v.frames[i].counts[denied]
			r.minute = append(r.minute, float64(max(to, from)-from))
		}
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b topRule) int {
		by := topOrders[v.order].by
		return cmp.Or(slices.Compare(by(&b), by(&a)), strings.Compare(a.Rule, b.Rule))
	})
	return rules
}

// lines returns the screen, of a width and a height. Without a height, all rules and keys are listed.
func (v *topView) lines(width, height int) []topLine {
	f := v.last()
	all := []topLine{{fmt.Sprintf("sluice top  %s%s  %s, up %s", v.server, servers(f.Live), f.Version, millis(f.AtMS-f.StartedMS)), bold}}
	all = append(append(all, v.notes(f.Live)...), topLine{})
	rules, below, last := v.ruleLines(width), v.keyLines(width), v.heavyLines(width)
	if v.heavy {
		below, last = last, below
	}
	below = slices.Concat(below, []topLine{{}}, last)
	if height > 0 {
		room := height - len(all) - 2 // an empty line, and the last line
		rules = cut(rules, max(room-len(below), (room+1)/2, 2))
		below = cut(below, room-len(rules))
	}
	all = slices.Concat(all, rules, []topLine{{}}, below)
	if height > 0 {
		all = append(all, make([]topLine, max(0, height-len(all)))...)
		all = append(all[:height-1], topLine{v.help(), faint})
	}
	for i := range all {
		all[i].text = fit(all[i].text, width)
	}
	return all
}

// help returns the last line.
func (v *topView) help() string {
	switch {
	case v.filtering:
		return "rules with: " + v.filter + "_   (enter keeps the filter, esc ends it)"
	case v.filter != "":
		return "rules with " + v.filter + "; esc shows all   / filter  s sort  q quit"
	}
	return fmt.Sprintf("q quit  ↑↓⏎ rule  esc  s sort: %s  / find  k keys  h heavy", topOrders[v.order].name)
}

// servers returns whose numbers the frame has, if there are several servers.
func servers(f *wire.Live) string {
	switch n := len(f.Servers); {
	case n < 2:
		return ""
	case f.Counted == "":
		return fmt.Sprintf(" (1 of %d servers)", n)
	default:
		return fmt.Sprintf(" and %d more", n-1)
	}
}

// notes returns what is wrong with the servers.
func (v *topView) notes(f *wire.Live) (lines []topLine) {
	add := func(style, text string) { lines = append(lines, topLine{printable(text), style}) }
	if v.trouble != "" {
		add(red, "NO ANSWER: "+v.trouble)
	}
	if f.NotReady != "" {
		add(red, "not ready: "+f.NotReady)
	}
	for _, n := range f.Notes {
		if n != "store: ok" {
			add(red, n)
		}
	}
	if f.ServersUnknown != "" {
		add(red, "the other servers are not known now: "+f.ServersUnknown)
	}
	for i := range f.Servers {
		s := &f.Servers[i]
		name := s.Name + " " + s.Admin
		switch {
		case s.State == wire.ServerSilent:
			add(red, fmt.Sprintf("%s: no answer for %s", name, millis(s.SeenMS)))
		case s.State == wire.ServerWaiting:
			add(faint, name+": waiting for its answer")
		case s.NotReady != "":
			add(red, name+": not ready: "+s.NotReady)
		case s.OtherRules:
			add(red, name+": it has other rules")
		}
	}
	if v.unmasked && v.hidden != "" {
		add(faint, "some keys stay fingerprints: "+v.hidden)
	}
	return lines
}

// wide is the width of a terminal, from which on the tables have all columns.
const wide = 120

// ruleLines returns the table of rules.
func (v *topView) ruleLines(width int) []topLine {
	frees, units, fixed := 0, 0, 54 // the columns beside the name and the sparkline
	if width >= wide {
		frees, units, fixed = 7, 9, 72
	}
	name := min(max(12, width-fixed-20), 40)
	spark := max(1, width-fixed-name)
	line := columns(-name, -9, 8, 8, 6, 8, 8, frees, units, -spark)
	lines := []topLine{line(bold, "RULE", "STATE", "REQUESTS", "DENIED", "SHARE", "PRESSURE", "WOULD", "FREES", "UNITS", "LAST MINUTE")}
	for _, r := range v.rules() {
		style, pressure, freed := "", part(r.Pressure, 1), "-"
		if r.denied > 0 {
			style = red
		}
		if r.Rule == v.selected {
			style = inverted
		}
		if r.Rule == noRule {
			pressure = "-"
		}
		if r.Compared > 0 {
			freed = fmt.Sprintf("%d/%d", r.Freed, r.Compared)
		}
		lines = append(lines, line(style, title(r.Rule), cmp.Or(r.State, "-"), rate(r.demand), rate(r.denied), part(r.denied, r.demand), pressure, rate(r.would), freed,
			rate(r.units), sparkline(r.minute, min(60, spark))))
	}
	return lines
}

// heavyLines returns the table of the keys with the most requests that pass.
func (v *topView) heavyLines(width int) []topLine {
	f := v.last()
	if len(f.Heavy) == 0 {
		return []topLine{{fmt.Sprintf("too few requests to estimate the heaviest keys: of allowed ones, one in %d is counted", f.Sampled), faint}}
	}
	line := columns(-min(40, max(16, width-54)), -20, 22, 8)
	lines := []topLine{line(bold, "HEAVIEST KEY", "RULE", fmt.Sprintf("1 IN %d COUNTED", f.Sampled), "SINCE")}
	for _, k := range f.Heavy {
		lines = append(lines, line("", v.key(k.Rule, k.Digest), printable(k.Rule), fmt.Sprintf("%d±%d", k.Requests, k.Within), millis(k.FirstMS)))
	}
	return lines
}

// keyLines returns the table of the keys that are limited, or that a rule in shadow or a candidate would limit.
func (v *topView) keyLines(width int) []topLine {
	keys := v.last().Keys
	if len(keys) == 0 {
		return []topLine{{"no key was denied in this half hour", faint}}
	}
	key, why, candidate, left := 16, 9, 0, 8
	switch {
	case width >= wide:
		key, why, candidate, left = min(40, width-98), 19, 9, 13
	case slices.ContainsFunc(keys, func(k wire.DeniedKey) bool { return compared(&k) != "-" }):
		why, candidate = 0, 9
	}
	line := columns(-key, -min(20, max(11, width-69)), 8, 7, 6, -why, -candidate, left, 8)
	lines := []topLine{line(bold, "KEY", "RULE", "DENIED", "NOW", "SINCE", "WHY", "CANDIDATE", "LEFT", "PASSES")}
	for i := range keys {
		k := &keys[i]
		style, now, left, passes := "", v.per(countID(k)), "-", "-"
		if now > 0 {
			style = red
		}
		if k.Now != nil {
			if n, of := unitsOf(k.Now); of != "-" {
				left = n + " of " + of
			}
			passes = retryAfter(k.Now.Allowed, &k.Now.Waits, millis)
		}
		lines = append(lines, line(style, v.key(k.Rule, k.Digest), printable(k.Rule), denials(k), rate(now), millis(k.FirstMS), reason(k), compared(k), left, passes))
	}
	return lines
}

// compared writes in a word what the candidate of its rule would do to a key.
func compared(k *wire.DeniedKey) string {
	switch t := k.Candidate; {
	case k.Role == "candidate":
		return "newly"
	case t == nil:
		return "-"
	case t.WouldDeny == 0:
		return "freed"
	case t.WouldDeny < t.Compared:
		return part(float64(t.WouldDeny), float64(t.Compared)) + " left"
	default:
		return "limited"
	}
}
