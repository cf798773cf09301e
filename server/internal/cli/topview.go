package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// The styles of lines.
const (
	plain    = "\x1b[0m"
	bold     = "\x1b[1m"
	faint    = "\x1b[2m"
	red      = "\x1b[31m"
	inverted = "\x1b[7m"
)

// topLine is a line of the screen.
type topLine struct{ text, style string }

// topView is what top shows. It has no terminal and no clock.
type topView struct {
	server  string
	frames  []*wire.Live // of the last minute, the latest last
	words   *wire.Rules
	keys    map[string]string // the texts of keys, by rule and digest
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

// topRule is a rule with its rates.
type topRule struct {
	name, state    string
	demand, denied float64 // a second
	units          float64 // a second
	pressure       float64
	total          uint64
	minute         []float64 // denials of each second
	shadow, tried  float64
}

// topOrders are the orders of rules.
var topOrders = []struct {
	name    string
	compare func(a, b *topRule) int
}{
	{"denials", func(a, b *topRule) int {
		return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.total, a.total), cmp.Compare(b.demand, a.demand))
	}},
	{"requests", func(a, b *topRule) int { return cmp.Compare(b.demand, a.demand) }},
	{"pressure", func(a, b *topRule) int { return cmp.Compare(b.pressure, a.pressure) }},
	{"name", func(*topRule, *topRule) int { return 0 }},
}

const (
	// topFrames is how many frames are kept, and topRecent over how many of them rates are measured.
	topFrames = 61
	topRecent = 10
	noRule    = "(none)" // the name of requests that no rule matched
)

// add adds a frame.
func (v *topView) add(f *wire.Live) error {
	if len(v.frames) > 0 && (v.last().StartedMS != f.StartedMS || v.last().Counted != f.Counted) {
		v.frames = nil // the server has restarted, or other servers are added
	}
	for _, r := range f.Rules {
		if len(r.Totals) != len(f.Figures) {
			return fmt.Errorf("rule %.64q has %d figures, and %d are named; use the version of the server", r.Rule, len(r.Totals), len(f.Figures))
		}
	}
	v.frames = append(v.frames, f)
	if len(v.frames) > topFrames {
		v.frames = v.frames[1:]
	}
	return nil
}

func (v *topView) last() *wire.Live { return v.frames[len(v.frames)-1] }

// show keeps the texts of keys.
func (v *topView) show(keys []wire.DeniedKey) {
	v.keys = map[string]string{}
	for i := range keys {
		if k := &keys[i]; k.Key != nil {
			v.keys[k.Rule+"\x00"+k.Digest] = asciiKey(k.Key)
		}
	}
}

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

// press changes the view by a key, and reports whether top goes on.
func (v *topView) press(key string) bool {
	if v.filtering {
		switch {
		case key == "\r" || key == "esc":
			v.filtering = false
			if key == "esc" {
				v.filter = ""
			}
		case key == "\x7f" || key == "\b":
			v.filter = v.filter[:max(0, len(v.filter)-1)]
		case key == "\x03":
			return false
		case len(key) == 1 && key >= " ":
			v.filter += key
		}
		return true
	}
	switch key {
	case "q", "\x03", "\x04":
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
		v.unmasked = !v.unmasked
	case "h":
		v.heavy = !v.heavy
	case "a":
		v.alone = !v.alone
	case "p", " ":
		v.paused = !v.paused
	}
	return true
}

// move selects the next rule, or the one before.
func (v *topView) move(down bool) {
	rules := v.rules()
	i := slices.IndexFunc(rules, func(r topRule) bool { return r.name == v.selected })
	switch {
	case len(rules) == 0:
		return
	case i < 0:
		i = 0
	case down:
		i = min(i+1, len(rules)-1)
	default:
		i = max(i-1, 0)
	}
	v.selected = rules[i].name
}

// per returns the growth of a number in a second, over the latest frames.
func (v *topView) per(read func(*wire.Live) (uint64, bool)) float64 {
	last := v.last()
	to, _ := read(last)
	for _, first := range v.frames[max(0, len(v.frames)-1-topRecent):] {
		from, known := read(first)
		if known && to >= from && last.AtMS > first.AtMS {
			return float64(to-from) / float64(last.AtMS-first.AtMS) * 1000
		}
	}
	return 0
}

// sum returns a reader of the requests of a rule, of some outcomes.
func sum(rule string, wanted func(figure string) bool) func(*wire.Live) (uint64, bool) {
	return func(f *wire.Live) (n uint64, known bool) {
		for i := range f.Rules {
			if f.Rules[i].Rule != rule {
				continue
			}
			for j, count := range f.Rules[i].Totals {
				if wanted(f.Figures[j]) {
					n += count
				}
			}
			return n, true
		}
		return 0, false
	}
}

// unitsOf returns a reader of the units that requests of a rule wanted.
func unitsOf(rule string) func(*wire.Live) (uint64, bool) {
	return func(f *wire.Live) (uint64, bool) {
		for i := range f.Rules {
			if f.Rules[i].Rule == rule {
				return f.Rules[i].Units, true
			}
		}
		return 0, false
	}
}

// only wants one figure.
func only(name string) func(string) bool { return func(figure string) bool { return figure == name } }

// rules returns the rules of the view, in their order.
func (v *topView) rules() (rules []topRule) {
	f := v.last()
	for i := range f.Rules {
		l := &f.Rules[i]
		if !strings.Contains(l.Rule, v.filter) {
			continue
		}
		denied := sum(l.Rule, only("denied"))
		r := topRule{
			name: l.Rule, state: "-", pressure: l.Pressure, denied: v.per(denied),
			demand: v.per(sum(l.Rule, func(figure string) bool { return figure != "candidate_denied" })),
			units:  v.per(unitsOf(l.Rule)),
			shadow: v.per(sum(l.Rule, only("shadow_denied"))), tried: v.per(sum(l.Rule, only("candidate_denied"))),
		}
		r.total, _ = denied(f)
		for i := 1; i < len(v.frames); i++ {
			from, _ := denied(v.frames[i-1])
			to, _ := denied(v.frames[i])
			r.minute = append(r.minute, float64(max(to, from)-from))
		}
		for i := range v.words.Rules {
			if w := &v.words.Rules[i]; w.Rule == l.Rule {
				r.state = w.State
			}
		}
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b topRule) int {
		return cmp.Or(topOrders[v.order].compare(&a, &b), strings.Compare(a.name, b.name))
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
		{fmt.Sprintf("sluice top  %s%s  %s, up %s  %s", v.server, servers(f), f.Version, short(f.AtMS-f.StartedMS), state), bold},
		v.answer(f, rules),
		{},
	}
	for _, n := range f.Notes {
		if n != "store: ok" {
			all = append(all, topLine{printable(n), red})
		}
	}
	all = append(all, serverLines(f)...)
	ruleLines, keyLines := v.ruleLines(rules, width), v.keyLines(f, width)
	switch heavy := v.heavyLines(f, width); {
	case height == 0:
		keyLines = append(append(keyLines, topLine{}), heavy...)
	case v.heavy:
		keyLines = heavy
	}
	if height > 0 {
		room := height - len(all) - 2 // an empty line, and the last line
		most := max(room-len(keyLines), (room+1)/2, 2)
		ruleLines = cut(ruleLines, most, func(l topLine) bool { return l.style == inverted })
		keyLines = cut(keyLines, max(0, room-len(ruleLines)), func(topLine) bool { return false })
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

// serverLines returns what is wrong with other servers.
func serverLines(f *wire.Live) (lines []topLine) {
	if f.ServersUnknown != "" {
		lines = append(lines, topLine{"the other servers are not known now: " + printable(f.ServersUnknown), red})
	}
	for i := range f.Servers {
		s := &f.Servers[i]
		name := printable(s.Name + " " + s.Admin)
		switch {
		case s.State == wire.ServerSilent:
			lines = append(lines, topLine{fmt.Sprintf("%s: no answer for %s", name, short(s.SeenMS)), red})
		case s.State == wire.ServerWaiting:
			lines = append(lines, topLine{name + ": waiting for its answer", faint})
		case s.NotReady != "":
			lines = append(lines, topLine{name + ": not ready: " + printable(s.NotReady), red})
		case s.OtherRules:
			lines = append(lines, topLine{name + ": it has other rules", red})
		}
	}
	return lines
}

// answer returns the line that names the limited rules and keys.
func (v *topView) answer(f *wire.Live, rules []topRule) topLine {
	if v.trouble != "" {
		return topLine{printable(v.trouble), red}
	}
	if f.NotReady != "" {
		return topLine{"not ready: " + printable(f.NotReady), red}
	}
	var texts []string
	for i := range rules {
		if r := &rules[i]; r.denied > 0 {
			texts = append(texts, fmt.Sprintf("%s refuses %s/s, %s", title(r.name), rate(r.denied), share(r)))
		}
	}
	for i := range rules {
		if r := &rules[i]; r.shadow > 0 || r.tried > 0 {
			texts = append(texts, fmt.Sprintf("%s would refuse %s/s", title(r.name), rate(r.shadow+r.tried)))
		}
	}
	switch {
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

// mostTexts bounds the rules that this line names.
const mostTexts = 3

// ruleLines returns the table of rules.
func (v *topView) ruleLines(rules []topRule, width int) []topLine {
	const fixed = 51 // the columns beside the name and the sparkline
	name := min(max(12, width-fixed-20), 40)
	inUnits := width >= 110 && slices.ContainsFunc(rules, func(r topRule) bool { return unitsDiffer(&r) })
	format, spark := fmt.Sprintf("%%-%ds  %%-9s %%9s %%9s %%6s %%8s%%10s  %%s", name), width-name-fixed
	head := ""
	if inUnits {
		head, spark = "UNITS", spark-10
	} else {
		format = strings.Replace(format, "%10s", "%s", 1)
	}
	lines := []topLine{{fmt.Sprintf(format, "RULE", "STATE", "REQUESTS", "DENIED", "SHARE", "PRESSURE", head, "DENIED, LAST MINUTE"), bold}}
	for i := range rules {
		r := &rules[i]
		pressure := asPercent(r.pressure)
		if r.name == noRule {
			pressure = "-"
		}
		units := ""
		if inUnits && unitsDiffer(r) {
			units = compact(int64(r.units)) + "/s"
		}
		l := topLine{text: fmt.Sprintf(format, fit(title(r.name), name), r.state, rate(r.demand)+"/s", rate(r.denied)+"/s", share(r), pressure, units,
			sparkline(r.minute, min(60, spark)))}
		switch {
		case r.name == v.selected:
			l.style = inverted
		case r.denied > 0:
			l.style = red
		}
		lines = append(lines, l)
	}
	return lines
}

// unitsDiffer reports whether the requests of a rule do not all cost one unit.
func unitsDiffer(r *topRule) bool { return r.units > 0 && math.Abs(r.units-r.demand) > r.demand/50 }

// heavyLines returns the table of the keys with the most requests that pass.
func (v *topView) heavyLines(f *wire.Live, width int) []topLine {
	const format = "%-16s %-20s %22s %6s"
	lines := []topLine{{fmt.Sprintf(format, "HEAVIEST KEY", "RULE", fmt.Sprintf("1 IN %d COUNTED", f.Sampled), "SINCE"), bold}}
	for i := range f.Heavy {
		k := &f.Heavy[i]
		text := v.keys[k.Rule+"\x00"+k.Digest]
		if text == "" || !v.unmasked {
			text = printable(k.Digest)
		}
		lines = append(lines, topLine{text: fmt.Sprintf(format, fit(text, 16), fit(printable(k.Rule), 20), fmt.Sprintf("%d±%d", k.Requests, k.Within), short(k.FirstMS))})
	}
	if len(f.Heavy) == 0 {
		lines[0] = topLine{fmt.Sprintf("too few requests to estimate the heaviest keys: of allowed ones, one in %d is counted", f.Sampled), faint}
	}
	return lines
}

// keyLines returns the table of keys.
func (v *topView) keyLines(f *wire.Live, width int) []topLine {
	key, rule, why, left := 16, min(20, max(12, width-68)), 9, 9
	if width >= 100 {
		key, why, left = min(40, width-rule-63), 16, 13
	}
	format := fmt.Sprintf("%%-%ds %%-%ds %%8s %%7s %%5s %%-%ds %%%ds %%7s", key, rule, why, left)
	lines := []topLine{{fmt.Sprintf(format, "KEY", "RULE", "DENIED", "NOW", "SINCE", "WHY", "LEFT", "PASSES"), bold}}
	for i := range f.Keys {
		k := &f.Keys[i]
		remains, passes := "-", "-"
		if n := k.Now; n != nil {
			remains, passes = compact(n.Remaining)+" of "+compact(n.Capacity), "now"
			switch {
			case n.Allowed:
			case n.RetryAfterMS == nil:
				passes = "never"
			default:
				passes = short(*n.RetryAfterMS)
			}
		}
		reason := printable(k.Reason)
		if k.Role != "enforced" {
			reason += ", " + printable(k.Role)
		}
		id := k.Rule + "\x00" + k.Digest
		text := v.keys[id]
		if text == "" || !v.unmasked {
			text = printable(k.Digest)
		}
		speed := v.per(func(f *wire.Live) (uint64, bool) {
			for i := range f.Keys {
				if k := &f.Keys[i]; k.Rule+"\x00"+k.Digest == id {
					return k.Denials, true
				}
			}
			return 0, false
		})
		l := topLine{text: fmt.Sprintf(format, fit(text, key), fit(printable(k.Rule), rule), denials(k), rate(speed)+"/s", short(k.FirstMS), fit(reason, why), remains, passes)}
		if speed > 0 {
			l.style = red
		}
		lines = append(lines, l)
	}
	if len(f.Keys) == 0 {
		lines[0] = topLine{"no key was denied in this half hour", faint}
	}
	return lines
}

// cut keeps the head of a table and so many lines that it has most lines, with the wanted one.
func cut(lines []topLine, most int, wanted func(topLine) bool) []topLine {
	if len(lines) <= most || most < 1 {
		return lines[:min(len(lines), max(0, most))]
	}
	from := 1
	if at := slices.IndexFunc(lines, wanted); at >= most {
		from = at - most + 2
	}
	return append(lines[:1:1], lines[from:from+most-1]...)
}

// fit shortens a text to a width.
func fit(text string, width int) string {
	if r := []rune(text); len(r) > width {
		if width < 1 {
			return ""
		}
		return string(r[:width-1]) + "…"
	}
	return text
}

// compact writes a number with few digits.
func compact(n int64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%dG", n/1_000_000_000)
	case n >= 1_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return strconv.FormatInt(n, 10)
	}
}

func title(rule string) string {
	if rule == noRule {
		return "no rule"
	}
	return printable(rule)
}

// rate writes a number of requests a second.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

func share(r *topRule) string {
	if r.demand == 0 {
		return "-"
	}
	if r.denied > 0 && r.denied < r.demand/100 {
		return "<1%"
	}
	return asPercent(r.denied / r.demand)
}

func asPercent(part float64) string { return strconv.FormatFloat(100*part, 'f', 0, 64) + "%" }

// short writes milliseconds in one unit, and a wait not shorter than it is.
func short(ms int64) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", (ms+999)/1000)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int64(d.Round(time.Minute).Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int64(d.Round(time.Hour).Hours()))
	default:
		return fmt.Sprintf("%dd", int64(d.Hours()/24))
	}
}

// sparkline draws the last values, the greatest as a full block.
func sparkline(values []float64, width int) string {
	if len(values) > width {
		values = values[len(values)-max(0, width):]
	}
	most := 0.0
	for _, n := range values {
		most = max(most, n)
	}
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	line := make([]rune, len(values))
	for i, n := range values {
		line[i] = blocks[0]
		if n > 0 {
			line[i] = blocks[max(1, int(n/most*float64(len(blocks)-1)))]
		}
	}
	return strings.TrimRight(string(line), " ")
}
