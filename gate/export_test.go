package gate

// MeasuredRules returns the number of rules whose pressure a gate measures.
func MeasuredRules(g *Gate) (n int) {
	g.pressures.rules.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
