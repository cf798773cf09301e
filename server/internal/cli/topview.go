package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// topView is what top shows. It has no terminal and no clock.
type topView struct {
	server  string
	frames  []topFrame // of the last minute, the latest last
	words   *wire.Rules
	keys    map[string]string // the texts of keys that the server revealed, by keyID; empty for a key that it does not reveal
	hidden  string            // why a key is not revealed
	trouble string

	rule      string // whose keys are shown; empty for all
	selected  string // rule
	order     int    // an index of topOrders
	filter    string
	filtering bool // keys go to the filter
	paused    bool
	unmasked  bool
	heavy     bool // the heaviest keys are shown, and not the most limited ones
	alone     bool // the numbers are of the called server, and not of all servers
}

// topFrame is an answer of the server, and the numbers in it that grow, by their names.
type topFrame struct {
	*wire.Live

	counts map[string]uint64
}

// topRule is a rule with its rates, a second.
type topRule struct {
	wire.LiveRule

	state                        string
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
	if flag := map[string]*bool{"k": &v.unmasked, "h": &v.heavy, "a": &v.alone, "p": &v.paused, " ": &v.paused}[key]; flag != nil {
		*flag = !*flag
	}
	switch key {
	case "q", "\x04":
		return false
	case "up", "down":
		v.move(key == "down")
	case "\r":
		v.rule = v.selected
	case "esc":
		v.rule, v.filter = "", ""
	case "s":
		v.order = (v.order + 1) % len(topOrders)
	case "/":
		v.filter, v.filtering = "", true
	case "k":
		v.keys, v.hidden = map[string]string{}, ""
	}
	return true
}

// move selects the next rule, or the one before.
func (v *topView) move(down bool) {
	rules := v.rules()
	if len(rules) == 0 {
		return
	}
	i := slices.IndexFunc(rules, func(r topRule) bool { return r.Rule == v.selected })
	switch {
	case down:
		i++
	case i > 0:
		i--
	}
	v.selected = rules[min(max(i, 0), len(rules)-1)].Rule
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
			LiveRule: l, state: "-", demand: v.per("demand " + l.Rule), denied: v.per(denied), units: v.per("units " + l.Rule),
			would: v.per("shadow_denied "+l.Rule) + v.per("candidate_denied "+l.Rule), total: v.last().counts[denied],
		}
		for i := 1; i < len(v.frames); i++ {
			from, to := v.frames[i-1].counts[denied], v.frames[i].counts[denied]
			r.minute = append(r.minute, float64(max(to, from)-from))
		}
		if i := slices.IndexFunc(v.words.Rules, func(w wire.RuleInWords) bool { return w.Rule == l.Rule }); i >= 0 {
			r.state = v.words.Rules[i].State
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
	f, rules := v.last(), v.rules()
	state := "live"
	switch {
	case v.trouble != "":
		state = "NO ANSWER"
	case v.paused:
		state = "paused"
	}
	all := []topLine{
		{fmt.Sprintf("sluice top  %s%s  %s, up %s  %s", v.server, servers(f.Live), f.Version, short(f.AtMS-f.StartedMS), state), bold},
		v.answer(rules),
		{},
	}
	all = append(all, v.notes(f.Live)...)
	ruleLines, keyLines := v.ruleLines(rules, width), v.keyLines(width)
	switch {
	case height == 0:
		keyLines = append(append(keyLines, topLine{}), v.heavyLines(width)...)
	case v.heavy:
		keyLines = v.heavyLines(width)
	}
	if height > 0 {
		room := height - len(all) - 2 // an empty line, and the last line
		ruleLines = cut(ruleLines, max(room-len(keyLines), (room+1)/2, 2))
		keyLines = cut(keyLines, room-len(ruleLines))
	}
	all = append(append(append(all, ruleLines...), topLine{}), keyLines...)
	if height > 0 {
		for len(all) < height-1 {
			all = append(all, topLine{})
		}
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
	return fmt.Sprintf("q quit  ↑↓⏎ rule  esc  s sort: %s  / find  k keys  h heavy  a one  p pause", topOrders[v.order].name)
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
			add(red, fmt.Sprintf("%s: no answer for %s", name, short(s.SeenMS)))
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

// mostTexts bounds the rules that the second line names.
const mostTexts = 3

// answer returns the line that names the limited rules and keys.
func (v *topView) answer(rules []topRule) topLine {
	if v.trouble != "" {
		return topLine{printable(v.trouble), red}
	}
	if n := v.last().NotReady; n != "" {
		return topLine{"not ready: " + printable(n), red}
	}
	var texts, others []string
	for i := range rules {
		r := &rules[i]
		trial := ""
		if r.Compared > 0 {
			trial = fmt.Sprintf(" (candidate frees %d of %d keys)", r.Freed, r.Compared)
		}
		if r.denied > 0 {
			texts = append(texts, fmt.Sprintf("%s refuses %s/s, %s%s", title(r.Rule), rate(r.denied), part(r.denied, r.demand), trial))
		}
		if r.would > 0 {
			others = append(others, fmt.Sprintf("%s would refuse %s/s", title(r.Rule), rate(r.would)))
		}
	}
	switch texts = append(texts, others...); {
	case len(v.frames) < 2:
		return topLine{"measuring", ""}
	case len(texts) == 0:
		return topLine{"nothing is limited now", ""}
	}
	if n := len(texts) - mostTexts; n > 0 {
		texts = append(texts[:mostTexts], fmt.Sprintf("and %d more", n))
	}
	return topLine{strings.Join(texts, "; "), red}
}

// ruleLines returns the table of rules.
func (v *topView) ruleLines(rules []topRule, width int) []topLine {
	const fixed = 49 // the columns beside the name and the sparkline
	name := min(max(12, width-fixed-20), 40)
	spark, units := width-name-fixed, 0
	if width >= 110 && slices.ContainsFunc(rules, func(r topRule) bool { return unitsDiffer(&r) }) {
		units, spark = 9, spark-10
	}
	return table([]topColumn[topRule]{
		{"RULE", -name, func(r *topRule) string { return title(r.Rule) }},
		{"STATE", -9, func(r *topRule) string { return r.state }},
		{"REQUESTS", 9, func(r *topRule) string { return rate(r.demand) + "/s" }},
		{"DENIED", 9, func(r *topRule) string { return rate(r.denied) + "/s" }},
		{"SHARE", 6, func(r *topRule) string { return part(r.denied, r.demand) }},
		{"PRESSURE", 8, func(r *topRule) string {
			if r.Rule == noRule {
				return "-"
			}
			return part(r.Pressure, 1)
		}},
		{"UNITS", units, func(r *topRule) string {
			if !unitsDiffer(r) {
				return ""
			}
			return compact(int64(r.units)) + "/s"
		}},
		{"LAST MINUTE", -max(spark, 1), func(r *topRule) string { return sparkline(r.minute, min(60, spark)) }},
	}, rules, func(r *topRule) string {
		switch {
		case r.Rule == v.selected:
			return inverted
		case r.denied > 0:
			return red
		}
		return ""
	})
}

// unitsDiffer reports whether the requests of a rule do not all cost one unit.
func unitsDiffer(r *topRule) bool { return r.units > 0 && math.Abs(r.units-r.demand) > r.demand/50 }

// heavyLines returns the table of the keys with the most requests that pass.
func (v *topView) heavyLines(width int) []topLine {
	f := v.last()
	if len(f.Heavy) == 0 {
		return []topLine{{fmt.Sprintf("too few requests to estimate the heaviest keys: of allowed ones, one in %d is counted", f.Sampled), faint}}
	}
	return table([]topColumn[wire.HeavyKey]{
		{"HEAVIEST KEY", -min(40, max(16, width-52)), func(k *wire.HeavyKey) string { return v.key(k.Rule, k.Digest) }},
		{"RULE", -20, func(k *wire.HeavyKey) string { return printable(k.Rule) }},
		{fmt.Sprintf("1 IN %d COUNTED", f.Sampled), 22, func(k *wire.HeavyKey) string { return fmt.Sprintf("%d±%d", k.Requests, k.Within) }},
		{"SINCE", 6, func(k *wire.HeavyKey) string { return short(k.FirstMS) }},
	}, f.Heavy, func(*wire.HeavyKey) string { return "" })
}

// keyLines returns the table of keys.
func (v *topView) keyLines(width int) []topLine {
	keys := v.last().Keys
	if len(keys) == 0 {
		return []topLine{{"no key was denied in this half hour", faint}}
	}
	key, rule, why, left, candidate := 16, min(20, max(12, width-68)), 9, 9, 0
	if slices.ContainsFunc(keys, func(k wire.DeniedKey) bool { return k.Candidate != nil || k.Role == "candidate" }) {
		candidate = 9
	}
	if width >= 100+candidate {
		key, why, left = min(40, width-67-rule-candidate), 19, 13
	} else if candidate > 0 {
		why = 0 // the column of the candidate is there instead
	}
	now := func(k *wire.DeniedKey) float64 { return v.per(countID(k)) }
	return table([]topColumn[wire.DeniedKey]{
		{"KEY", -key, func(k *wire.DeniedKey) string { return v.key(k.Rule, k.Digest) }},
		{"RULE", -rule, func(k *wire.DeniedKey) string { return printable(k.Rule) }},
		{"DENIED", 8, denials},
		{"NOW", 7, func(k *wire.DeniedKey) string { return rate(now(k)) + "/s" }},
		{"SINCE", 5, func(k *wire.DeniedKey) string { return short(k.FirstMS) }},
		{"WHY", -why, reason},
		{"CANDIDATE", -candidate, func(k *wire.DeniedKey) string {
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
		}},
		{"LEFT", left, func(k *wire.DeniedKey) string {
			if k.Now == nil {
				return "-"
			}
			return compact(k.Now.Remaining) + " of " + compact(k.Now.Capacity)
		}},
		{"PASSES", 7, func(k *wire.DeniedKey) string {
			if k.Now == nil {
				return "-"
			}
			return retryAfter(k.Now.Allowed, &k.Now.Waits, short)
		}},
	}, keys, func(k *wire.DeniedKey) string {
		if now(k) > 0 {
			return red
		}
		return ""
	})
}
