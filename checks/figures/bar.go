package figures

// Bar is a promise about a figure.
type Bar struct {
	Promise  string
	Found    string // what was measured
	Measured bool
	Holds    bool
}

// Verdict is how a report puts it.
func (b Bar) Verdict() string {
	switch {
	case !b.Measured:
		return "not measured"
	case b.Holds:
		return "holds"
	}
	return "**does not hold**"
}

// Failed counts the bars that were measured and do not hold.
func Failed(bars []Bar) int {
	n := 0
	for _, b := range bars {
		if b.Measured && !b.Holds {
			n++
		}
	}
	return n
}

// BarTable lays bars out.
func BarTable(bars []Bar) Table {
	t := Table{{"bar", "measured", "verdict"}}
	for _, b := range bars {
		t = append(t, []string{b.Promise, b.Found, b.Verdict()})
	}
	return t
}
